"""What the trials over ROS 2 left behind, and the parity of their observations with the simulator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rlinf_ros.contract.fields import read_text
from rlinf_ros.pipeline.joints import JointReader
from rlinf_ros_training.config import EnvConfig
from rlinf_ros_training.envs.factory import make_env

_ROWS = ("last_command", "last_action", "goal_position", "goal_quat_xyzw")


@dataclass(frozen=True)
class Trials:
    """trials.json and trials.npz as `rlinf_ros.runtime.trials.record` documents them."""

    summary: dict[str, Any]
    rows: dict[str, npt.NDArray[Any]]

    @staticmethod
    def load(folder: Path) -> Trials:
        """Read both files."""
        summary = json.loads(read_text(folder / "trials.json"))
        with np.load(folder / "trials.npz", allow_pickle=False) as archive:
            return Trials(summary, {name: archive[name] for name in archive.files})

    @property
    def success_rate(self) -> float:
        """Part of the trials whose tool was within tolerance of its goal at the end."""
        rate: float = self.summary["success_rate"]
        return rate

    @property
    def count(self) -> int:
        """Number of trials."""
        return len(self.summary["trials"])

    @property
    def latency_ms(self) -> dict[str, float]:
        """p50 and p99 from the stamp of a joint state to the sending of the command, in ms."""
        return {name: self.summary["command_latency_ms"][name] for name in ("p50", "p99")}

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The raw state (N, ...) at each policy call; keys as in pipeline.terms."""
        state = {name: self.rows[name] for name in _ROWS}
        state["joint_position"] = self._by_name("position")
        state["joint_velocity"] = self._by_name("velocity")
        return state

    def _by_name(self, field: str) -> npt.NDArray[np.float64]:
        reader = JointReader([str(name) for name in self.rows["joint_names"]])
        order = reader.index([str(name) for name in self.rows["joint_state_names"]])
        values: npt.NDArray[np.float64] = self.rows[field][:, order]
        return values


def parity(trials: Trials, config: EnvConfig) -> float:
    """Largest difference between what the policy node saw and what the training environment shows
    for the same states of the simulated arm, over all policy calls of all trials."""
    observed = trials.rows["observation"]
    env = make_env(config, len(observed), training=False)
    try:
        difference = np.abs(env.observe_state(trials.state()) - observed)
    finally:
        env.close()
    return float(difference.max())
