"""The gripper's number: an affine map between the policy's range and the joint's angle, clipped."""

from __future__ import annotations

from ..contract.tool_action import GripperMap
from .arrays import Array
from .limits import bound


def to_joint(gripper: GripperMap, value: Array) -> Array:
    """The policy's number → joint angle in rad; beyond either end of the stroke: that end."""
    source = gripper.policy_open, gripper.policy_closed
    return _map(value, source, (gripper.open_rad, gripper.closed_rad))


def to_policy(gripper: GripperMap, angle: Array) -> Array:
    """Joint angle in rad → the policy's number, within its range; the inverse of `to_joint`."""
    source = gripper.open_rad, gripper.closed_rad
    return _map(angle, source, (gripper.policy_open, gripper.policy_closed))


def _map(x: Array, source: tuple[float, float], ends: tuple[float, float]) -> Array:
    x = bound(x, x * 0.0 + min(source), x * 0.0 + max(source))
    share = (x - source[0]) / (source[1] - source[0])
    # so written that both ends come out exactly
    return ends[0] * (1.0 - share) + ends[1] * share
