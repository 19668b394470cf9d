"""Whether an action can be used at all, and whether a run may start with it. Pure functions."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .limits import SafetyLimits, Vector
from .reason import Code, Reason

Interface = Literal["position", "velocity"]
# Steps of a clock that are taken for jitter and rounding between machines, s.
MAX_CLOCK_JUMP_S = 0.05
_TOPIC = "policy/action"


def judge_action(
    target: Vector, age_s: float, interface: Interface, limits: SafetyLimits
) -> Reason | None:
    """Why a target (rad or rad/s) must be dropped as a whole, or None.

    age_s: of the joint state that it was computed from. A value far beyond the limits is a fault of
    the sender (a wrong unit, an overflow), not a motion to be clipped.
    """
    count = len(limits.joint_names)
    if target.shape != (count,):
        return Reason(
            Code.WRONG_LENGTH,
            f"an action has {target.size} targets for {count} joints",
            "check that policy and guard run for the same robot",
            _TOPIC,
            value=float(target.size),
            limit=float(count),
        )
    if not np.all(np.isfinite(target)):
        j = int(np.argmax(~np.isfinite(target)))
        return Reason(
            Code.NON_FINITE,
            f"the target of '{limits.joint_names[j]}' is {target[j]}",
            "check the policy's inputs and its bundle with `rlinf-ros verify`",
            _TOPIC,
            limits.joint_names[j],
            float(target[j]),
        )
    if interface == "position":
        code = Code.POSITION_LIMIT
        lower, upper = limits.lower - limits.max_excess_rad, limits.upper + limits.max_excess_rad
    else:
        code = Code.VELOCITY_LIMIT
        lower, upper = -2.0 * limits.velocity, 2.0 * limits.velocity
    outside = np.maximum(lower - target, target - upper)
    if np.any(outside > 0):
        j = int(np.argmax(outside))
        return Reason(
            code,
            f"the target of '{limits.joint_names[j]}' is {target[j]:.4g}, far beyond its limits",
            "check the action's scale and unit: such a target is a fault, not a motion",
            _TOPIC,
            limits.joint_names[j],
            float(target[j]),
            float(upper[j] if target[j] > upper[j] else lower[j]),
        )
    if not -MAX_CLOCK_JUMP_S <= age_s <= limits.action_max_age_s:
        return Reason(
            Code.STALE_INPUT,
            f"an action was computed from a joint state that is {age_s:.3g} s old",
            "check the policy's inference time and the clocks of both machines",
            _TOPIC,
            value=age_s,
            limit=limits.action_max_age_s,
        )
    return None


def judge_start(
    target: Vector, measured: Vector, interface: Interface, limits: SafetyLimits
) -> Reason | None:
    """Why a run must not start at `measured` (J,) rad with this first target, or None."""
    outside = np.maximum(limits.lower - measured, measured - limits.upper)
    if np.any(outside > 0):
        j = int(np.argmax(outside))
        bound = limits.upper[j] if measured[j] > limits.upper[j] else limits.lower[j]
        return Reason(
            Code.POSITION_LIMIT,
            f"'{limits.joint_names[j]}' stands at {measured[j]:.4g} rad, outside its limits",
            "jog the arm back inside by hand",
            joint=limits.joint_names[j],
            value=float(measured[j]),
            limit=float(bound),
        )
    distance = np.abs(target - measured)
    if interface == "position" and np.any(distance > limits.max_start_distance_rad):
        j = int(np.argmax(distance))
        return Reason(
            Code.START_TOO_FAR,
            f"the first target of '{limits.joint_names[j]}' is {distance[j]:.4g} rad away from it",
            "bring the arm nearer to the policy's start",
            _TOPIC,
            limits.joint_names[j],
            float(distance[j]),
            limits.max_start_distance_rad,
        )
    return None
