"""Action terms beyond joints: the tool moved by its twist or pose, and the gripper's opening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .fields import Fields

Interface = Literal["position", "velocity"]
TOOL_UNITS: dict[str, str] = {"tool_twist": "m/s, rad/s", "tool_pose_delta": "m, rad"}
TOOL_ELEMENTS: tuple[str, ...] = ("x", "y", "z", "rx", "ry", "rz")
ANCHORS: tuple[str, ...] = ("measured", "last_command")


@dataclass(frozen=True)
class InverseKinematics:
    """Damped least squares, see `pipeline.inverse`.

    length_m: so many metres count as much as 1 rad. singular_below: singular values of the Jacobian
    below it, in m/rad, are damped, rising to `damping` (same unit) at 0. null_space_gain_hz: with more
    than six joints, the rate at which the free motion goes towards the home pose.
    """

    length_m: float
    singular_below: float
    damping: float
    null_space_gain_hz: float


@dataclass(frozen=True)
class ToolMotion:
    """What the six numbers of a tool action mean, and how joints follow them.

    frame: link whose axes the vectors are given in. reference_point: link whose origin the linear
    part moves. anchor: the joint positions that the motion starts from. interface: of the controller.
    """

    frame: str
    reference_point: str
    anchor: Literal["measured", "last_command"]
    interface: Interface
    inverse: InverseKinematics


@dataclass(frozen=True)
class GripperMap:
    """An affine map between the policy's number and the angle of one gripper joint.

    policy_open ↔ open_rad, policy_closed ↔ closed_rad; a value beyond either end is clipped.
    """

    joint: str
    policy_open: float
    policy_closed: float
    open_rad: float
    closed_rad: float


def read_tool_motion(doc: Fields, type_: str) -> ToolMotion:
    """The keys of a `tool_twist` or `tool_pose_delta` term that say what its numbers mean."""
    if type_ == "tool_twist":  # a velocity goes on from the last command, or is one itself
        interface = doc.choice("command_interface", ["position", "velocity"])
        anchor = "last_command" if interface == "position" else "measured"
    else:
        interface, anchor = "position", doc.choice("anchor", ANCHORS)
    with doc.child("inverse_kinematics") as ik:
        inverse = InverseKinematics(
            length_m=ik.number("length_m", positive=True),
            singular_below=ik.number("singular_below", positive=True),
            damping=ik.number("damping", positive=True),
            null_space_gain_hz=ik.number("null_space_gain_hz", low=0.0),
        )
    return ToolMotion(
        doc.string("frame"),
        doc.string("reference_point"),
        "measured" if anchor == "measured" else "last_command",
        "velocity" if interface == "velocity" else "position",
        inverse,
    )


def read_gripper(doc: Fields) -> GripperMap:
    """The keys `joint`, `policy` and `joint_rad` of a gripper term, for action and observation."""
    with doc.child("policy") as policy, doc.child("joint_rad") as angle:
        gripper = GripperMap(
            joint=doc.string("joint"),
            policy_open=policy.number("open"),
            policy_closed=policy.number("closed"),
            open_rad=angle.number("open"),
            closed_rad=angle.number("closed"),
        )
    for key, a, b in (
        ("policy", gripper.policy_open, gripper.policy_closed),
        ("joint_rad", gripper.open_rad, gripper.closed_rad),
    ):
        if a == b:
            doc.fail(key, f"open and closed are both {a:g}", fix="give the two ends of the stroke")
    return gripper
