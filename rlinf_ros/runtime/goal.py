"""Goals of the tool, brought into base_link from the frames that people give them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..contract.errors import ConfigError
from ..pipeline.kinematics import Kinematics
from ..pipeline.rotations import check_quat, matrix_to_quat, quat_to_matrix
from ..robot.description import RobotDescription

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Goal:
    """Where the tool shall be, in the robot's base frame: (3,) m and (4,) unit quaternion xyzw."""

    position: Vector
    quat_xyzw: Vector


class GoalFrames:
    """Reads goals given in the base frame or in the controller's base frame of a robot.

    prefix: the driver's `tf_prefix`, which stands before each frame name.
    """

    def __init__(self, robot: RobotDescription, prefix: str = "") -> None:
        rest = np.zeros(len(robot.joint_names))
        p_base, r_base = Kinematics.from_robot(robot).forward(rest)
        self._frames: dict[str, tuple[Vector, Vector]] = {}
        for name in (robot.frames.base, robot.frames.controller_base):
            p_frame, r_frame = Kinematics.from_robot(robot, base=name).forward(rest)
            rotation = r_base @ r_frame.T
            self._frames[prefix + name] = (rotation, p_base - rotation @ p_frame)

    def read(self, frame_id: str, position: Sequence[float], quat_xyzw: Sequence[float]) -> Goal:
        """Goal in base_link. Raises ConfigError: unknown frame, not finite, no unit quaternion."""
        if frame_id not in self._frames:
            raise ConfigError(
                f"frame '{frame_id}' is not known here",
                where="target.header.frame_id",
                allowed=list(self._frames),
                fix=f"transform the goal into '{next(iter(self._frames))}' first",
            )
        point = np.asarray(position, dtype=np.float64)
        if not np.all(np.isfinite(point)):
            raise ConfigError(f"is not finite: {point}", where="target.pose.position")
        quat = check_quat(np.asarray(quat_xyzw, dtype=np.float64), where="target.pose.orientation")
        rotation, translation = self._frames[frame_id]
        return Goal(rotation @ point + translation, matrix_to_quat(rotation @ quat_to_matrix(quat)))
