"""From the policy's action to a bounded joint command, and back.

`command` = decode + limits. `encode` is the inverse of decode: what was really sent, in action units,
which is what the next observation shows as `last_action`.
"""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np

from ..contract.errors import ConfigError
from ..contract.model import Contract
from ..robot.description import RobotDescription
from .fit import check_fits
from .limits import bound, limit_position, limit_velocity
from .observation import format_table
from .terms import RawState

Array = Any

# Time over which a velocity command is brought to zero at a position limit.
_VELOCITY_STOP_TIME_S = 0.2


class ActionPipeline:
    """Executes `contract.action` for one robot (or a batch): vectors in the robot's joint order."""

    def __init__(self, contract: Contract, robot: RobotDescription) -> None:
        check_fits(contract, robot)
        self.spec, self.control_dt_s = contract.action, contract.control_dt_s
        names = robot.joint_names
        # Column in the action of each robot joint: check_fits has proved that each has exactly one.
        self._column = np.array([self.spec.joints.index(name) for name in names])
        self._joint = np.argsort(self._column)  # the way back
        types = np.array([term.type for term in self.spec.terms for _ in term.joints])[self._column]
        scale = np.array([s for term in self.spec.terms for s in term.scale])[self._column]
        offset = np.array([o for term in self.spec.terms for o in term.offset])[self._column]
        self._scale, self._offset = scale, offset
        self._from_measured = (types == "joint_delta_from_measured").astype(float)
        self._from_command = (types == "joint_delta_from_last_command").astype(float)
        limits = self.spec.limits
        self._velocity = np.array(limits.velocity_rad_s)[self._column]
        self._max_step = self._velocity * self.control_dt_s
        self._max_change = (
            robot.acceleration * self.control_dt_s
        )  # of a velocity, as the guard does
        self._tracking = np.full(len(names), limits.tracking_error_rad)
        self._lower = robot.lower + limits.position_margin_rad
        self._upper = robot.upper - limits.position_margin_rad
        if np.any(self._lower >= self._upper):
            raise ConfigError(
                "leaves a joint no room",
                where=f"contract '{contract.name}'.action.limits.position_margin_rad",
                allowed=f"< {float(np.min(robot.upper - robot.lower)) / 2:.4g}",
            )

    @property
    def size(self) -> int:
        """Length A of the action vector."""
        return self.spec.size

    def command(self, action: Array, state: RawState) -> Array:
        """Action (..., A) → joint command (..., J): rad, or rad/s for the velocity interface.

        Needs joint_position and last_command in `state`. The action is clipped to ±clip. Not for
        NaN: the caller checks the action first, for a NaN must never become a command.
        """
        return self._limit(self._decode(action, state), state)

    def encode(self, command: Array, state: RawState) -> Array:
        """Joint command (..., J) as it was sent → action (..., A); `state` from before it was sent."""
        anchor = self._anchor(state, command)
        columns = (command - anchor) / _like(self._scale, command)
        return columns[..., self._joint]

    def rest_command(self, joint_position: Array) -> Array:
        """The command that keeps the arm where it is: its position, or zero velocity."""
        return joint_position * 0.0 if self.spec.command_interface == "velocity" else joint_position

    def _anchor(self, state: RawState, like: Array) -> Array:
        return (
            _like(self._offset, like)
            + _like(self._from_measured, like) * state["joint_position"]
            + _like(self._from_command, like) * state["last_command"]
        )

    def _decode(self, action: Array, state: RawState) -> Array:
        xp = array_api_compat.array_namespace(state["joint_position"])
        action = xp.asarray(action, dtype=state["joint_position"].dtype)
        limit = xp.asarray(self.spec.clip, dtype=action.dtype)
        clipped = bound(action, -limit, limit)[..., self._column]
        return self._anchor(state, clipped) + clipped * _like(self._scale, clipped)

    def _limit(self, target: Array, state: RawState) -> Array:
        measured, last = state["joint_position"], state["last_command"]
        lower, upper = _like(self._lower, target), _like(self._upper, target)
        if self.spec.command_interface == "velocity":
            return limit_velocity(
                target,
                last,
                measured,
                lower=lower,
                upper=upper,
                max_velocity=_like(self._velocity, target),
                max_step=_like(self._max_change, target),
                stop_time_s=_VELOCITY_STOP_TIME_S,
            )
        return limit_position(
            target,
            last,
            measured,
            lower=lower,
            upper=upper,
            max_step=_like(self._max_step, target),
            max_tracking_error=_like(self._tracking, target),
        )

    def table(self) -> str:
        """The action's terms as a printable table."""
        rows = [("index", "term", "type", "joint", "scale", "unit", "offset")]
        i = 0
        for term in self.spec.terms:
            for joint, scale, offset in zip(term.joints, term.scale, term.offset, strict=True):
                rows.append(
                    (str(i), term.name, term.type, joint, repr(scale), term.unit, repr(offset))
                )
                i += 1
        return format_table(rows)


def _like(constant: np.ndarray, x: Array) -> Array:
    if isinstance(x, np.ndarray):
        return constant
    return array_api_compat.array_namespace(x).asarray(
        constant, dtype=x.dtype, device=array_api_compat.device(x)
    )
