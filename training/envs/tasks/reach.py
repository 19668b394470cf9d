"""Reach: bring the tool to a goal pose (Reach) or only to a goal position (ReachPosition)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rlinf_ros.pipeline.rotations import quat_multiply
from rlinf_ros.pipeline.terms import Context

from .task import Array, Episodes, Task


class ReachPosition(Task):
    """Tool position only: within 3 cm at the end of a 2 s episode."""

    contract = "reach_position"
    episode_s = 2.0
    goal_low: ClassVar[tuple[float, float, float]] = (0.25, -0.45, 0.10)  # m, base_link
    goal_high: ClassVar[tuple[float, float, float]] = (0.70, 0.45, 0.65)
    start_spread_rad: ClassVar[float] = 0.1
    success_position_m: ClassVar[float] = 0.03
    action_cost: ClassVar[float] = 0.01

    def sample(self, rng: np.random.Generator, n: int) -> Episodes:
        """Start near home; the goal is uniform in a box."""
        spread = rng.uniform(-1.0, 1.0, (n, len(self.robot.home)))
        return Episodes(
            joint_position=self.robot.home + self.start_spread_rad * spread,
            goal_position=rng.uniform(self.goal_low, self.goal_high, (n, 3)),
            goal_quat_xyzw=self.sample_orientation(rng, n),
        )

    def sample_orientation(self, rng: np.random.Generator, n: int) -> Array:
        """Goal orientations (n, 4); here the home orientation, which the contract does not show."""
        return np.tile(self._home_quat, (n, 1))

    @cached_property
    def _home_quat(self) -> Array:
        return self.kinematics.forward_pose(self.robot.home)[1]

    def reward(self, context: Context, action: Array) -> Array:
        """Nearness, with a second narrower peak at the goal, less the cost of acting."""
        distance = np.linalg.norm(context.position_error, axis=-1)
        effort = np.einsum("ij,ij->i", action, action)
        return 1.0 - distance / 0.5 + np.exp(-distance / 0.05) - self.action_cost * effort

    def success(self, context: Context) -> npt.NDArray[np.bool_]:
        """Within the position tolerance."""
        return np.linalg.norm(context.position_error, axis=-1) < self.success_position_m

    def errors(self, context: Context) -> dict[str, Array]:
        """Distance to the goal."""
        return {"position_error_m": np.linalg.norm(context.position_error, axis=-1)}


class Reach(ReachPosition):
    """Position and orientation: within 3 cm and 10° at the end of a 3 s episode.

    Goal orientations are the home orientation (tool pointing down), turned about the vertical and
    then tilted about a random horizontal axis.
    """

    contract = "reach"
    episode_s = 3.0
    goal_low = (0.30, -0.35, 0.15)
    goal_high = (0.65, 0.35, 0.55)
    start_spread_rad = 0.6
    yaw_rad: ClassVar[float] = 0.8
    tilt_rad: ClassVar[float] = 0.5
    success_rotation_rad: ClassVar[float] = np.deg2rad(10.0)

    def sample_orientation(self, rng: np.random.Generator, n: int) -> Array:
        """Home orientation turned by up to ±yaw_rad and tilted by up to tilt_rad."""
        yaw = rng.uniform(-self.yaw_rad, self.yaw_rad, n)
        tilt = rng.uniform(0.0, self.tilt_rad, n)
        direction = rng.uniform(-np.pi, np.pi, n)
        zero = np.zeros(n)
        turn = np.stack([zero, zero, np.sin(yaw / 2), np.cos(yaw / 2)], axis=-1)
        lean = np.stack(
            [
                np.cos(direction) * np.sin(tilt / 2),
                np.sin(direction) * np.sin(tilt / 2),
                zero,
                np.cos(tilt / 2),
            ],
            axis=-1,
        )
        home = super().sample_orientation(rng, n)
        return quat_multiply(lean, quat_multiply(turn, home))

    def reward(self, context: Context, action: Array) -> Array:
        """As for the position, plus the same for the angle; both peaks together pay once more."""
        distance = np.linalg.norm(context.position_error, axis=-1)
        angle = np.linalg.norm(context.rotation_error, axis=-1)
        effort = np.einsum("ij,ij->i", action, action)
        return (
            1.0
            - distance / 0.5
            - angle / 2.0
            + np.exp(-distance / 0.05)
            + np.exp(-angle / 0.25)
            + np.exp(-distance / 0.03 - angle / 0.17)
            - self.action_cost * effort
        )

    def success(self, context: Context) -> npt.NDArray[np.bool_]:
        """Within both tolerances."""
        angle = np.linalg.norm(context.rotation_error, axis=-1)
        return super().success(context) & (angle < self.success_rotation_rad)

    def errors(self, context: Context) -> dict[str, Array]:
        """Distance and angle to the goal."""
        angle = np.linalg.norm(context.rotation_error, axis=-1)
        return super().errors(context) | {"rotation_error_rad": angle}
