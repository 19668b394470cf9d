"""The goals of trials, read from a JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.fields import Fields, read_text
from rlinf_ros.robot.description import RobotDescription

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrialGoal:
    """position (3,) m and quat_xyzw (4,) of the tool in base_link; start (J,) rad, robot order."""

    position: Vector
    quat_xyzw: Vector
    seed: int
    start: Vector


def read_goals(path: str | Path, robot: RobotDescription) -> list[TrialGoal]:
    """Goals of a list of {position_m: [3], quat_xyzw: [4], seed, start_rad: {joint: rad}}.

    start_rad may be left out: the trial starts from home. Raises ConfigError.
    """
    try:
        document = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ConfigError(f"not valid JSON: {error}", where=str(path)) from error
    if not isinstance(document, list) or not document:
        raise ConfigError("expected a non-empty list of goals", where=str(path))
    return [_goal(Fields(entry, f"{path}[{i}]"), robot) for i, entry in enumerate(document)]


def _goal(f: Fields, robot: RobotDescription) -> TrialGoal:
    with f:
        quat = np.array(f.numbers("quat_xyzw", length=4))
        norm = float(np.linalg.norm(quat))
        if abs(norm - 1.0) > 1e-3:
            f.fail("quat_xyzw", f"its length is {norm:.4g}", allowed="a unit quaternion")
        start = robot.home.copy()
        if f.has("start_rad"):
            with f.child("start_rad") as c:
                start[:] = [
                    c.number(joint.name, low=joint.lower_rad, high=joint.upper_rad)
                    for joint in robot.joints
                ]
        position = np.array(f.numbers("position_m", length=3))
        return TrialGoal(position, quat / norm, f.integer("seed"), start)
