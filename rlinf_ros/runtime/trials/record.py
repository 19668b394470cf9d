"""TrialRecord: all trials of a session, and the two files they are written to.

trials.json   the trials with errors and reasons; success rate, latency and parity over all of them
trials.npz    the recordings, one after the other; plain arrays, no pickled objects:
    joint_names (J,)         the robot's order, in which commands and actions are
    joint_state_names (M,)   the driver's order, in which positions and velocities are
    a row per policy call:   trial, sequence, stamp_ns (of its joint state), position and velocity
                             (N, M) at that stamp, last_command (N, J), last_action (N, A),
                             commanded (N,): false while nothing had been sent in the run, then
                             last_command is the measured position; goal_position (N, 3),
                             goal_quat_xyzw (N, 4), and the observation (N, D) as published
    a row per joint state:   state_trial, state_stamp_ns, state_position and state_velocity (S, M),
                             state_position_error_m, state_orientation_error_rad
    a row per command:       command_trial, command_stamp_ns, command_sequence, command (C, J)
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.model import Contract
from rlinf_ros.pipeline.joints import JointReader
from rlinf_ros.robot.description import RobotDescription
from rlinf_ros.runtime.trials.recording import Array, Recording, Trial
from rlinf_ros.runtime.trials.replay import Replay


class TrialRecord:
    """Collects trials. prefix: `tf_prefix` of the joint names in joint states."""

    def __init__(self, contract: Contract, robot: RobotDescription, prefix: str = "") -> None:
        self.robot, self.trials = robot, list[Trial]()
        self.parity_max_abs = 0.0
        self.replay = Replay(contract, robot)
        self._reader = JointReader(robot.joint_names, prefix)
        self._names: tuple[str, ...] = ()
        self._columns = np.zeros(0, dtype=np.intp)
        self._rows: dict[str, list[Array]] = {}

    def add(self, trial: Trial) -> float:
        """Take a trial; the largest difference between its observations and the recomputed ones.

        Raises ConfigError for a recording that can't be used as a whole.
        """
        recording, number = trial.recording, len(self.trials)
        self._read_names(recording)
        self._append("state_", number, [s._asdict() for s in recording.states], drop=("names",))
        position = np.array([state.position for state in recording.states])
        distance, angle = self.replay.errors(position[:, self._columns], trial.goal)
        self._rows.setdefault("state_position_error_m", []).append(distance)
        self._rows.setdefault("state_orientation_error_rad", []).append(angle)
        commands = [c._asdict() for c in recording.commands]
        self._append("command_", number, commands, drop=("values",))
        if commands:
            values = np.array([command["values"] for command in commands])
            self._rows.setdefault("command", []).append(values)
        rows, worst = self.replay.run(recording, trial.goal, self._columns)
        self._append("", number, rows)
        self.parity_max_abs = max(self.parity_max_abs, worst)
        self.trials.append(trial)
        return worst

    def _read_names(self, recording: Recording) -> None:
        names = {state.names for state in recording.states} | ({self._names} - {()})
        if len(names) != 1:
            what = f"names changed: {sorted(names)}" if names else "nothing was recorded"
            raise ConfigError(what, where="joint_states", fix="use one driver, and keep it running")
        (self._names,) = names
        self._columns = self._reader.index(self._names)

    def _append(
        self, prefix: str, number: int, rows: list[dict[str, Any]], drop: tuple[str, ...] = ()
    ) -> None:
        if not rows:
            return
        for name in rows[0]:
            if name not in drop:
                values = np.array([row[name] for row in rows])
                self._rows.setdefault(prefix + name, []).append(values)
        self._rows.setdefault(f"{prefix}trial", []).append(np.full(len(rows), number))

    def report(self) -> dict[str, Any]:
        """What goes into trials.json; a value that is not known is null."""
        latencies = [ms for trial in self.trials for ms in trial.recording.latencies_ms()]
        p50, p99 = np.percentile(latencies, [50, 99]) if latencies else (np.nan, np.nan)
        successes = [trial.success for trial in self.trials]
        return {
            "robot": self.robot.name,
            "success_rate": float(np.mean(successes)) if successes else None,
            "parity_max_abs": self.parity_max_abs,
            "command_latency_ms": {
                "p50": _known(p50),
                "p99": _known(p99),
                "count": len(latencies),
            },
            "trials": [_entry(trial) for trial in self.trials],
        }

    def write(self, folder: str | Path) -> None:
        """Write trials.npz, then trials.json; each appears whole or not at all."""
        folder = Path(folder)
        arrays: dict[str, Any] = {name: np.concatenate(parts) for name, parts in self._rows.items()}
        arrays["joint_names"] = np.array(self.robot.joint_names)
        arrays["joint_state_names"] = np.array(self._names, dtype=np.str_)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        folder.mkdir(parents=True, exist_ok=True)
        _write_atomic(folder / "trials.npz", buffer.getvalue())
        _write_atomic(folder / "trials.json", (json.dumps(self.report(), indent=2) + "\n").encode())


def _entry(trial: Trial) -> dict[str, Any]:
    return {
        "seed": trial.goal.seed,
        "success": trial.success,
        "position_error_m": _known(trial.position_error_m),
        "orientation_error_rad": _known(trial.orientation_error_rad),
        "steps": trial.steps,
        "elapsed_s": trial.elapsed_s,
        "reason": trial.reason,
        "said_success": trial.said_success,
        "goal_position_m": trial.goal.position.tolist(),
        "goal_quat_xyzw": trial.goal.quat_xyzw.tolist(),
    }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _write_atomic(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise ConfigError(
            f"cannot be written: {error.strerror}", where=str(path), fix="free some disk space"
        ) from error
