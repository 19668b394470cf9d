"""The Contract: every number that crosses between robot and policy, as plain frozen data.

This module holds the words and their sizes; `load` reads and validates the YAML; the pipeline room
executes it. An observation element is `clip((raw - offset) * scale)`; a joint target is
`anchor + clip(action) * scale`, the anchor being what the action type says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .tool_action import TOOL_ELEMENTS, TOOL_UNITS, GripperMap, Interface, ToolMotion

OrientationFormat = Literal["quat_xyzw", "quat_wxyz", "rot6d"]
ORIENTATION_SIZES: dict[str, int] = {"quat_xyzw": 4, "quat_wxyz": 4, "rot6d": 6}

# kind: (unit, has joints, has a frame, has an orientation format); None as size = depends on the joints
JOINT_KINDS: dict[str, str] = {
    "joint_position": "rad",
    "joint_velocity": "rad/s",
    "joint_command": "rad",
    "joint_command_error": "rad",
}
POINT_KINDS: dict[str, str] = {
    "tcp_position": "m",
    "goal_position": "m",
    "goal_position_error": "m",
    "goal_rotation_error": "rad",
}
ORIENTATION_KINDS: tuple[str, ...] = ("tcp_orientation", "goal_orientation")
TERM_KINDS: tuple[str, ...] = (
    *JOINT_KINDS,
    *POINT_KINDS,
    *ORIENTATION_KINDS,
    "gripper_position",
    "last_action",
)
TERM_HELP: dict[str, str] = {
    "joint_position": "measured joint angle",
    "joint_velocity": "measured joint velocity",
    "joint_command": "last joint target that the guard sent",
    "joint_command_error": "last joint target sent minus measured angle",
    "tcp_position": "position of the tool link, by forward kinematics from the measured joints",
    "tcp_orientation": "orientation of the tool link, by forward kinematics",
    "goal_position": "goal position of the tool link",
    "goal_orientation": "goal orientation of the tool link",
    "goal_position_error": "goal position minus tool position",
    "goal_rotation_error": "rotation vector that turns the tool into the goal orientation",
    "gripper_position": "measured angle of the gripper's joint, in the policy's number",
    "last_action": "last command that the guard sent, in action units",
}

ActionType = Literal[
    "joint_position",
    "joint_delta_from_measured",
    "joint_delta_from_last_command",
    "joint_offset_from_default",
    "joint_velocity",
    "tool_twist",
    "tool_pose_delta",
    "gripper",
]
ACTION_UNITS: dict[str, str] = {
    "joint_position": "rad",
    "joint_delta_from_measured": "rad",
    "joint_delta_from_last_command": "rad",
    "joint_offset_from_default": "rad",
    "joint_velocity": "rad/s",
    **TOOL_UNITS,
    "gripper": "1",
}
# What the guard does when the policy is silent: a position is held, a velocity must be brought to 0.
# The other pairing moves the arm (holding a velocity, or commanding position 0).
HOLDS: dict[str, str] = {"position": "hold_last_position", "velocity": "ramp_to_zero"}


@dataclass(frozen=True)
class ObservationTerm:
    """One named block of the observation. `offset`, `scale`, `clip` are in the order of its elements."""

    name: str
    kind: str
    unit: str
    size: int
    joints: tuple[str, ...] = ()
    frame: str = ""
    orientation: str = ""
    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    clip: tuple[float, float] | None = None
    history: int = 1
    gripper: GripperMap | None = None

    @property
    def width(self) -> int:
        """Number of elements in the observation vector (size × history)."""
        return self.size * self.history


@dataclass(frozen=True)
class ObservationSpec:
    """The observation vector: its terms, concatenated in order; history oldest first in each term."""

    terms: tuple[ObservationTerm, ...]
    tool: str
    max_age_s: float

    @property
    def size(self) -> int:
        """Length D of the observation vector."""
        return sum(term.width for term in self.terms)


@dataclass(frozen=True)
class ActionTerm:
    """A block of the action vector: some joints, one type. `scale` is in `unit` per unit of action.

    joints: of the arm that the term drives. tool: for `tool_twist` and `tool_pose_delta`, whose six
    numbers move all joints together; their joint targets come from inverse kinematics. gripper: for
    `gripper`, one number and no joint of the arm.
    """

    name: str
    type: str
    unit: str
    joints: tuple[str, ...]
    scale: tuple[float, ...]
    offset: tuple[float, ...]
    tool: ToolMotion | None = None
    gripper: GripperMap | None = None

    @property
    def elements(self) -> tuple[str, ...]:
        """A name for each of the term's numbers."""
        if self.tool is not None:
            return tuple(f"{self.name}[{element}]" for element in TOOL_ELEMENTS)
        return self.joints if self.gripper is None else (self.gripper.joint,)


@dataclass(frozen=True)
class ActionLimits:
    """Bounds that are part of the trained behaviour, applied alike in simulation and on hardware.

    velocity_rad_s: per-joint bound on the change of the target per second.
    tracking_error_rad: bound on |target - measured| (keeps the target from running ahead of a
    blocked arm). position_margin_rad: distance kept from the robot's position limits.
    """

    velocity_rad_s: tuple[float, ...]
    tracking_error_rad: float
    position_margin_rad: float


@dataclass(frozen=True)
class ActionSpec:
    """The action vector: its terms, concatenated in order; all drive the same command interface."""

    terms: tuple[ActionTerm, ...]
    clip: float
    hold: str
    limits: ActionLimits
    command_interface: Interface
    delay_s: float

    @property
    def size(self) -> int:
        """Length A of the action vector."""
        return len(self.elements)

    @property
    def elements(self) -> tuple[str, ...]:
        """A name for each number of the action: its joint, or `tool[x]` of a tool action."""
        return tuple(element for term in self.terms for element in term.elements)

    @property
    def joints(self) -> tuple[str, ...]:
        """All commanded joints of the arm, in the order of the terms."""
        return tuple(joint for term in self.terms for joint in term.joints)

    @property
    def gripper(self) -> GripperMap | None:
        """The gripper that the action drives, or None."""
        return next((term.gripper for term in self.terms if term.gripper is not None), None)


@dataclass(frozen=True)
class Contract:
    """A validated contract document. `text` is the exact file content, `sha256` its hash."""

    name: str
    description: str
    robot: str
    control_dt_s: float
    observation: ObservationSpec
    action: ActionSpec
    text: str
    sha256: str
