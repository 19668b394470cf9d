"""The one function that bounds a joint command; simulation, policy node and guard all call it."""

from __future__ import annotations

from typing import Any

import array_api_compat

Array = Any  # a numpy array or a torch tensor


def bound(x: Array, lower: Array, upper: Array) -> Array:
    """x within [lower, upper]; NaN stays NaN. A tenth of the cost of the standard's `clip`."""
    xp = array_api_compat.array_namespace(x)
    return xp.minimum(xp.maximum(x, lower), upper)


def limit_position(
    target: Array,
    last_command: Array,
    measured: Array,
    *,
    lower: Array,
    upper: Array,
    max_step: Array,
    max_tracking_error: Array,
) -> Array:
    """Bound a position target (..., J) in rad; returns an array of the same shape.

    The step bound is counted from the last command, not from the measured position, which lags: a
    limiter that integrates from the lagging measurement makes the arm crawl. |command - measured| is
    bounded apart, so the command cannot run away from a blocked arm. The bounds are applied in rising
    order of precedence (tracking, step, position); for a last command inside the position limits the
    result obeys step and position bounds exactly.
    """
    bounded = bound(target, measured - max_tracking_error, measured + max_tracking_error)
    bounded = bound(bounded, last_command - max_step, last_command + max_step)
    return bound(bounded, lower, upper)


def limit_velocity(
    target: Array,
    last_command: Array,
    measured: Array,
    *,
    lower: Array,
    upper: Array,
    max_velocity: Array,
    max_step: Array,
    stop_time_s: float,
) -> Array:
    """Bound a velocity target (..., J) in rad/s.

    last_command: last velocity sent, rad/s; measured: joint position, rad. max_step bounds the change
    of velocity per command. Near a position limit the speed toward it falls linearly to zero over
    `stop_time_s`, and turns inward beyond it.
    """
    bounded = bound(target, last_command - max_step, last_command + max_step)
    bounded = bound(bounded, (lower - measured) / stop_time_s, (upper - measured) / stop_time_s)
    return bound(bounded, -max_velocity, max_velocity)
