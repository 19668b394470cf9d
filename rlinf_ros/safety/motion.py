"""The bounds of one command: what is sent instead of what was asked for, and which limit did it."""

from __future__ import annotations

import numpy as np

from ..pipeline.limits import limit_position, limit_velocity
from .limits import SafetyLimits, Vector
from .reason import Code, Reason

# Time over which a velocity toward a position limit is brought to zero.
STOP_TIME_S = 0.2
# Longest time that a velocity command is credited with for its change: one slow policy period.
_MAX_VELOCITY_DT_S = 0.05
_REMEDY = "ask the policy for smaller or slower motions, or raise the limit if the cell allows it"


def bounded_position(
    target: Vector, last: Vector, measured: Vector, limits: SafetyLimits, dt_s: float
) -> tuple[Vector, Reason | None]:
    """Position command (J,), rad, toward `target`, dt_s after the last; and the limit that bent it.

    The step from the last command is at most velocity·dt_s and max_step_rad; `last` is inside the
    position limits.
    """
    step = np.minimum(limits.velocity * dt_s, limits.max_step_rad)
    command = limit_position(
        target,
        last,
        measured,
        lower=limits.lower,
        upper=limits.upper,
        max_step=step,
        max_tracking_error=np.full_like(step, limits.max_tracking_error_rad),
    )
    difference = np.abs(command - target)
    if not np.any(difference > 1e-9):
        return command, None
    j = int(np.argmax(difference))
    name = limits.joint_names[j]
    # The bound that the command sits at is the one that bent it.
    if command[j] in (limits.lower[j], limits.upper[j]):
        code, value, limit, what = Code.POSITION_LIMIT, target[j], command[j], "target"
    elif abs(command[j] - last[j]) < step[j] - 1e-9:
        code, value = Code.TRACKING_LIMIT, abs(target[j] - measured[j])
        limit, what = limits.max_tracking_error_rad, "distance from the measured position"
    elif step[j] < limits.max_step_rad:
        value = abs(target[j] - last[j]) / max(dt_s, 1e-9)
        code, limit, what = Code.VELOCITY_LIMIT, limits.velocity[j], "velocity"
    else:
        code, value = Code.STEP_LIMIT, abs(target[j] - last[j])
        limit, what = limits.max_step_rad, "step"
    text = f"{what} of '{name}' is {value:.4g}, the limit {limit:.4g}"
    return command, Reason(code, text, _REMEDY, joint=name, value=float(value), limit=float(limit))


def bounded_velocity(
    target: Vector, last: Vector, measured: Vector, limits: SafetyLimits, dt_s: float
) -> tuple[Vector, Reason | None]:
    """Velocity command (J,), rad/s, toward `target`, dt_s after the last; and what bent it.

    Its change is at most acceleration·dt_s, except where a position limit asks for harder braking.
    """
    change = limits.acceleration * min(dt_s, _MAX_VELOCITY_DT_S)
    command = limit_velocity(
        target,
        last,
        measured,
        lower=limits.lower,
        upper=limits.upper,
        max_velocity=limits.velocity,
        max_step=change,
        stop_time_s=STOP_TIME_S,
    )
    difference = np.abs(command - target)
    if not np.any(difference > 1e-9):
        return command, None
    j = int(np.argmax(difference))
    name, value = limits.joint_names[j], float(target[j])
    slowest = (limits.lower - measured) / STOP_TIME_S
    near = np.clip(target, slowest, (limits.upper - measured) / STOP_TIME_S)
    if abs(value) > limits.velocity[j]:
        code, limit = Code.VELOCITY_LIMIT, float(limits.velocity[j])
        text = f"velocity of '{name}' is {value:.4g} rad/s, the limit {limit:.4g}"
    elif abs(near[j] - target[j]) > 1e-9:
        code, value = Code.POSITION_LIMIT, float(measured[j])
        limit = float(limits.upper[j] if target[j] > 0 else limits.lower[j])
        text = f"'{name}' at {value:.4g} rad comes near its position limit {limit:.4g} rad"
    else:
        value, limit = abs(value - float(last[j])) / max(dt_s, 1e-9), float(limits.acceleration[j])
        code = Code.ACCELERATION_LIMIT
        text = f"acceleration of '{name}' is {value:.4g} rad/s^2, the limit {limit:.4g}"
    return command, Reason(code, text, _REMEDY, joint=name, value=value, limit=limit)


def braked_velocity(
    last: Vector, measured: Vector | None, limits: SafetyLimits, dt_s: float
) -> Vector:
    """Next velocity command (J,), rad/s, on the way to zero; brakes harder near a limit."""
    change = limits.acceleration * min(dt_s, _MAX_VELOCITY_DT_S)
    command = np.sign(last) * np.maximum(np.abs(last) - change, 0.0)
    if measured is None:
        return command
    room_up = np.maximum(limits.upper - measured, 0.0) / STOP_TIME_S
    room_down = np.maximum(measured - limits.lower, 0.0) / STOP_TIME_S
    return np.clip(command, -room_down, room_up)
