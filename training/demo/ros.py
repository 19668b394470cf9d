"""The ROS side of the demo as OS processes: twin, guard, policy, and the client that runs the trials."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rlinf_ros.contract.errors import RlinfError

_GRACE_S = 5.0  # from SIGINT to SIGTERM, and from there to SIGKILL


class ProcessError(RlinfError):
    """A process of the demo ended, or did not end in time."""


class Processes:
    """Child processes with a log file each; leaving the block ends them all, last started first."""

    def __init__(self, logs: Path) -> None:
        self._logs, self._running = logs, {}  # type: tuple[Path, dict[str, subprocess.Popen[bytes]]]
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for name in reversed(self._running):
            self._end(self._running[name])

    def log(self, name: str) -> Path:
        """The log file of a process."""
        return self._logs / f"{name}.log"

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start `argv` in a group of its own, so that a Ctrl-C here ends it by our order only."""
        with self.log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def follow(self, name: str, timeout_s: float) -> int:
        """Print what process `name` prints until it ends; its exit code. Others must stay alive."""
        process, deadline = self._running[name], time.monotonic() + timeout_s
        with self.log(name).open(errors="replace") as log:
            while True:
                code = process.poll()
                sys.stdout.write(log.read())
                sys.stdout.flush()
                if code is not None:
                    return code
                for other, running in self._running.items():
                    if running.poll() is not None:
                        raise ProcessError(f"{other} ended unexpectedly\n{self._tail(other)}")
                if time.monotonic() > deadline:
                    raise ProcessError(
                        f"{name} did not end within {timeout_s:.0f} s\n{self._tail(name)}"
                    )
                time.sleep(0.1)

    def _tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-12:]
        return "\n".join([f"  last lines of {self.log(name)}:", *(f"  | {line}" for line in lines)])

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                return
            os.killpg(process.pid, sign)
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                continue


def run_trials(
    bundle: Path, robot: str, goals: list[dict[str, Any]], duration_s: float, out: Path
) -> None:
    """Run the bundle on the twin over ROS 2, one trial per goal; writes out/trials.{json,npz}.

    goals: position_m [3], quat_xyzw [4] in base_link, and seed. Raises ProcessError with the reason.
    """
    out.mkdir(parents=True, exist_ok=True)
    goal_file = out / "goals.json"
    goal_file.write_text(json.dumps(goals, indent=1))

    def node(name: str, **parameters: object) -> list[str]:
        argv = [sys.executable, "-m", f"rlinf_ros.ros.{name}", "--ros-args"]
        for key, value in parameters.items():
            argv += ["-p", f"{key}:={str(value).lower() if isinstance(value, bool) else value}"]
        return argv

    with Processes(out / "logs") as processes:
        processes.start("twin_node", node("twin_node", robot=robot))
        processes.start("guard_node", node("guard_node", robot=robot))
        processes.start(
            "policy_node", node("policy_node", robot=robot, bundle=bundle, autostart=True)
        )
        client = [sys.executable, "-m", "rlinf_ros.ros.reach_trials", "--goals", str(goal_file)]
        client += ["--out", str(out), "--duration", str(duration_s), "--robot", robot]
        processes.start("reach_trials", client)
        code = processes.follow("reach_trials", timeout_s=60.0 + len(goals) * (duration_s + 10.0))
        if code != 0:
            raise ProcessError(f"the trials ended with exit code {code}; logs in {out / 'logs'}")
