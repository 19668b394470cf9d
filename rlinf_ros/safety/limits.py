"""SafetyLimits: every bound and time-out that the guard holds, from the robot and the operator."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..contract.errors import ConfigError, nearest
from ..robot.description import RobotDescription

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SafetyLimits:
    """Arrays are (J,) in the robot's joint order; the scalars hold for each joint.

    lower, upper: position, rad. velocity: rad/s, also between any two commands. acceleration:
    rad/s², of velocity commands and of their way to zero.
    """

    joint_names: tuple[str, ...]
    lower: Vector
    upper: Vector
    velocity: Vector
    acceleration: Vector
    max_step_rad: float  # between two commands; an arm's own program ignores larger ones
    max_tracking_error_rad: float = 0.3  # |command - measured|
    max_start_distance_rad: float = 0.5  # |first target - measured|
    max_excess_rad: float = 0.5  # a target further beyond the position limits is a fault
    ramp_velocity_rad_s: float = 0.5  # at which the gap to the first target closes
    input_max_age_s: float = 0.1  # joint states
    frozen_window_s: float = 0.5  # joint states without any change while the command moves
    action_max_age_s: float = 0.2  # from the joint state's stamp to the action's arrival
    action_timeout_s: float = 0.15  # a policy that is alive but sends no action has ended its run
    heartbeat_timeout_s: float = 0.04  # 2 periods of the policy node's heartbeat
    hold_grace_s: float = 0.5  # a shorter interruption needs no resume
    max_dropped_in_row: int = 5  # unusable actions in a row before a fault

    @classmethod
    def from_robot(
        cls, robot: RobotDescription, overrides: Mapping[str, float] | None = None
    ) -> SafetyLimits:
        """The robot's limits, and the operator's overrides of the scalar fields above.

        `velocity_scale` and `position_margin_rad` (overrides too) tighten the robot's own limits.
        Raises ConfigError for an unknown name, a value that is not positive, or one that loosens
        a limit of the robot.
        """
        given = dict(overrides or {})
        scale = given.pop("velocity_scale", 1.0)
        margin = given.pop("position_margin_rad", 0.0)
        if not 0.0 < scale <= 1.0:
            raise ConfigError(f"{scale!r} is out of range", where="velocity_scale", allowed="0..1")
        if not 0.0 <= margin < float(np.min(robot.upper - robot.lower)) / 2:
            raise ConfigError(
                f"{margin!r} is negative or leaves a joint no room", where="position_margin_rad"
            )
        names = [f.name for f in dataclasses.fields(cls) if f.type in ("float", "int")]
        for name, value in given.items():
            if name not in names:
                raise ConfigError(
                    "unknown limit",
                    where=name,
                    allowed=[*names, "velocity_scale", "position_margin_rad"],
                    fix=nearest(name, names),
                )
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"must be > 0, got {value!r}", where=name)
        largest_step = robot.safety.max_command_step_rad
        given.setdefault("max_step_rad", largest_step)
        if given["max_step_rad"] > largest_step:
            raise ConfigError(
                f"{given['max_step_rad']!r} rad is above the robot's limit",
                where="max_step_rad",
                allowed=f"≤ {largest_step}",
            )
        given["max_dropped_in_row"] = int(given.get("max_dropped_in_row", cls.max_dropped_in_row))
        return cls(
            joint_names=robot.joint_names,
            lower=robot.lower + margin,
            upper=robot.upper - margin,
            velocity=robot.velocity * scale,
            acceleration=robot.acceleration,
            **given,  # type: ignore[arg-type]
        )
