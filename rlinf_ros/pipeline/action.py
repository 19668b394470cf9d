"""From the policy's action to a bounded joint command, and back.

`command` = decode + limits. `encode` is the inverse of decode: what was really sent, in action units,
which is what the next observation shows as `last_action`; for a tool action, the motion of the tool
that the sent joint command really makes.
"""

from __future__ import annotations

import array_api_compat
import numpy as np

from ..contract.errors import ConfigError
from ..contract.model import ActionTerm, Contract
from ..robot.description import RobotDescription
from . import gripper
from .arrays import Array, like
from .fit import check_fits
from .limits import bound, limit_position, limit_velocity
from .observation import format_table
from .terms import RawState
from .tool_action import ToolAction

# Time over which a velocity command is brought to zero at a position limit.
_VELOCITY_STOP_TIME_S = 0.2


class ActionPipeline:
    """Executes `contract.action` for one robot (or a batch): vectors in the robot's joint order."""

    def __init__(self, contract: Contract, robot: RobotDescription) -> None:
        check_fits(contract, robot)
        self.spec, self.control_dt_s = contract.action, contract.control_dt_s
        names = robot.joint_names
        arm = [term for term in self.spec.terms if term.gripper is None]
        # Elements of the action that move the arm, and where the gripper's stands among them.
        elements, self._gripper = self.spec.elements, self.spec.gripper
        self._gripper_column = 0 if self._gripper is None else elements.index(self._gripper.joint)
        drives_arm = np.array([t.gripper is None for t in self.spec.terms for _ in t.elements])
        # Column in the action of each robot joint: check_fits has proved that each has exactly one.
        self._column = np.array([self.spec.joints.index(name) for name in names])
        self._joint = np.argsort(self._column)  # the way back
        limits = self.spec.limits
        self._velocity = np.array(limits.velocity_rad_s)[self._column]
        self._tool: ToolAction | None = None
        if arm[0].tool is not None:
            self._tool = ToolAction(arm[0], robot, self.control_dt_s, self._velocity)
            arm_columns = np.flatnonzero(drives_arm)
        else:
            types = np.array([term.type for term in arm for _ in term.joints])[self._column]
            self._scale = np.array([s for term in arm for s in term.scale])[self._column]
            self._offset = np.array([o for term in arm for o in term.offset])[self._column]
            self._from_measured = (types == "joint_delta_from_measured").astype(float)
            self._from_command = (types == "joint_delta_from_last_command").astype(float)
            arm_columns = np.flatnonzero(drives_arm)[self._column]
        self._arm_columns = arm_columns
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
        """Action (..., A) → command (..., J) of the arm: rad, or rad/s for the velocity interface.

        Needs joint_position and last_command in `state`. The action is clipped to ±clip. Not for
        NaN: the caller checks the action first, for a NaN must never become a command.
        """
        return self._limit(self._decode(action, state), state)

    def gripper_command(self, action: Array) -> Array:
        """Action (..., A) → angle (..., 1) of the gripper's joint, rad, within its stroke."""
        assert self._gripper is not None
        column = self._gripper_column
        return gripper.to_joint(self._gripper, action[..., column : column + 1])

    def encode(self, command: Array, state: RawState, gripper_rad: Array = None) -> Array:
        """Arm command (..., J) as it was sent → action (..., A); `state` from before it was sent.

        gripper_rad: (..., 1) angle that was sent to the gripper with it; None: `last_gripper` of
        `state` still holds.
        """
        if self._tool is not None:
            arm = self._tool.encode(command, state)
        else:
            anchor = self._anchor(state, command)
            arm = ((command - anchor) / like(self._scale, command))[..., self._joint]
        if self._gripper is None:
            return arm
        xp, column = array_api_compat.array_namespace(arm), self._gripper_column
        opening = state["last_gripper"] if gripper_rad is None else gripper_rad
        opening = gripper.to_policy(self._gripper, opening)
        return xp.concat([arm[..., :column], opening, arm[..., column:]], axis=-1)

    def rest_command(self, joint_position: Array) -> Array:
        """The command that keeps the arm where it is: its position, or zero velocity."""
        return joint_position * 0.0 if self.spec.command_interface == "velocity" else joint_position

    def _anchor(self, state: RawState, beside: Array) -> Array:
        return (
            like(self._offset, beside)
            + like(self._from_measured, beside) * state["joint_position"]
            + like(self._from_command, beside) * state["last_command"]
        )

    def _decode(self, action: Array, state: RawState) -> Array:
        xp = array_api_compat.array_namespace(state["joint_position"])
        action = xp.asarray(action, dtype=state["joint_position"].dtype)
        limit = xp.asarray(self.spec.clip, dtype=action.dtype)
        clipped = bound(action, -limit, limit)[..., self._arm_columns]
        if self._tool is not None:
            return self._tool.target(clipped, state)
        return self._anchor(state, clipped) + clipped * like(self._scale, clipped)

    def _limit(self, target: Array, state: RawState) -> Array:
        measured, last = state["joint_position"], state["last_command"]
        lower, upper = like(self._lower, target), like(self._upper, target)
        if self.spec.command_interface == "velocity":
            return limit_velocity(
                target,
                last,
                measured,
                lower=lower,
                upper=upper,
                max_velocity=like(self._velocity, target),
                max_step=like(self._max_change, target),
                stop_time_s=_VELOCITY_STOP_TIME_S,
            )
        return limit_position(
            target,
            last,
            measured,
            lower=lower,
            upper=upper,
            max_step=like(self._max_step, target),
            max_tracking_error=like(self._tracking, target),
        )

    def table(self) -> str:
        """The action's terms as a printable table."""
        rows = [("index", "term", "type", "element", "scale", "unit", "offset", "from")]
        i = 0
        for term in self.spec.terms:
            for element, scale, offset in zip(term.elements, term.scale, term.offset, strict=True):
                rows.append(
                    (
                        str(i),
                        term.name,
                        term.type,
                        element,
                        repr(scale),
                        term.unit,
                        repr(offset),
                        _origin(term),
                    )
                )
                i += 1
        return format_table(rows)


def _origin(term: ActionTerm) -> str:
    """What a term's numbers count from."""
    if term.tool is not None:
        return f"{term.tool.reference_point} along {term.tool.frame}, {term.tool.anchor}"
    if term.gripper is not None:
        g = term.gripper
        ends = ("open", g.policy_open, g.open_rad), ("closed", g.policy_closed, g.closed_rad)
        return ", ".join(f"{end} {value:g} = {angle:g} rad" for end, value, angle in ends)
    return {
        "joint_delta_from_measured": "measured",
        "joint_delta_from_last_command": "last_command",
        "joint_velocity": "0",
    }.get(term.type, "offset")
