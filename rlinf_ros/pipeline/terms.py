"""Observation terms: each a pure function from the raw state to an array (..., size).

`RawState` holds what the simulator or the robot gives, in the robot's joint order and in base_link;
`Context` adds what is computed from it once and shared between the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import array_api_compat

from ..contract.model import ObservationTerm
from .gripper import to_policy
from .kinematics import Kinematics, ToolPose
from .rotations import (
    matrix_to_quat,
    matrix_to_rot6d,
    quat_conjugate,
    quat_multiply,
    quat_to_matrix,
    quat_to_rotvec,
)

Array = Any
# Keys: joint_position (..., J) rad; joint_velocity (..., J) rad/s; last_command (..., J) rad or rad/s;
# last_action (..., A); with a gripper: gripper_position and last_gripper (..., 1) rad, measured and as
# sent; goal_position (..., 3) m and goal_quat_xyzw (..., 4), both in base_link.
RawState = Mapping[str, Array]


class Context:
    """One raw state and what follows from it, each part computed at most once and only if asked for.

    All in base_link.
    """

    def __init__(self, state: RawState, kinematics: Kinematics) -> None:
        self.state, self._kinematics = state, kinematics

    @cached_property
    def _tool(self) -> ToolPose:
        return self._kinematics.pose(self.state["joint_position"])

    @cached_property
    def tool_position(self) -> Array:
        """(..., 3) in m."""
        return self._tool.position()

    @cached_property
    def tool_matrix(self) -> Array:
        """Tool orientation as a rotation matrix (..., 3, 3)."""
        return self._tool.matrix()

    @cached_property
    def tool_quat(self) -> Array:
        """Tool orientation (..., 4), xyzw."""
        return matrix_to_quat(self.tool_matrix)

    @cached_property
    def position_error(self) -> Array:
        """Goal position minus tool position, (..., 3) in m."""
        return self.state["goal_position"] - self.tool_position

    @cached_property
    def rotation_error(self) -> Array:
        """Shortest rotation vector, in base_link, that turns the tool into the goal, (..., 3) in rad."""
        goal = self.state["goal_quat_xyzw"]
        return quat_to_rotvec(quat_multiply(goal, quat_conjugate(self.tool_quat)))


class Frame:
    """The frame that a term is expressed in: fixed to the base (R, t of base_link in it) or the tool."""

    def __init__(self, rotation: Array | None, translation: Array | None, is_tool: bool) -> None:
        self._rotation, self._translation, self._is_tool = rotation, translation, is_tool

    def point(self, p: Array) -> Array:
        """Point (..., 3) from base_link into this frame."""
        if self._rotation is None:
            return p
        xp = array_api_compat.array_namespace(p)
        return p @ xp.asarray(self._rotation.T, dtype=p.dtype) + xp.asarray(
            self._translation, dtype=p.dtype
        )

    def vector(self, v: Array, context: Context) -> Array:
        """Free vector (..., 3) from base_link into this frame."""
        if self._is_tool:
            return (v[..., None, :] @ context.tool_matrix)[..., 0, :]  # R^T v
        if self._rotation is None:
            return v
        xp = array_api_compat.array_namespace(v)
        return v @ xp.asarray(self._rotation.T, dtype=v.dtype)

    def matrix(self, m: Array) -> Array:
        """Rotation matrix (..., 3, 3) of a body in base_link → in this frame."""
        if self._rotation is None:
            return m
        xp = array_api_compat.array_namespace(m)
        return xp.asarray(self._rotation, dtype=m.dtype) @ m


def _orientation(matrix: Array, term: ObservationTerm) -> Array:
    if term.orientation == "rot6d":
        return matrix_to_rot6d(matrix)
    quat = matrix_to_quat(matrix)
    xp = array_api_compat.array_namespace(quat)
    # q and -q are one rotation: w ≥ 0 makes the number that the policy sees unique
    quat = xp.where(quat[..., 3:] < 0, -quat, quat)
    if term.orientation == "quat_wxyz":
        quat = xp.concat([quat[..., 3:], quat[..., :3]], axis=-1)
    return quat


TermFunction = Callable[[Context, ObservationTerm, Frame, Any], Array]


def _joints(key: str) -> TermFunction:
    return lambda context, term, frame, index: context.state[key][..., index]


def _opening(context: Context, term: ObservationTerm, frame: Frame, index: Any) -> Array:
    assert term.gripper is not None
    return to_policy(term.gripper, context.state["gripper_position"])


TERM_FUNCTIONS: dict[str, TermFunction] = {
    "joint_position": _joints("joint_position"),
    "joint_velocity": _joints("joint_velocity"),
    "joint_command": _joints("last_command"),
    "joint_command_error": lambda context, term, frame, index: (
        context.state["last_command"] - context.state["joint_position"]
    )[..., index],
    "tcp_position": lambda context, term, frame, index: frame.point(context.tool_position),
    "tcp_orientation": lambda context, term, frame, index: _orientation(
        frame.matrix(context.tool_matrix), term
    ),
    "goal_position": lambda context, term, frame, index: frame.point(
        context.state["goal_position"]
    ),
    "goal_orientation": lambda context, term, frame, index: _orientation(
        frame.matrix(quat_to_matrix(context.state["goal_quat_xyzw"])), term
    ),
    "goal_position_error": lambda context, term, frame, index: frame.vector(
        context.position_error, context
    ),
    "goal_rotation_error": lambda context, term, frame, index: frame.vector(
        context.rotation_error, context
    ),
    "gripper_position": _opening,
    "last_action": lambda context, term, frame, index: context.state["last_action"],
}
