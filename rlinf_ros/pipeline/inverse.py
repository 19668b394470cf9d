"""Differential inverse kinematics: joint motion for a small motion of the tool, calm at singularities.

Damped least squares (Nakamura and Hanafusa, "Inverse kinematic solutions with singularity robustness",
J. Dyn. Sys. Meas. Control 108, 1986) with the damping confined to the directions that are near
singular, and rising smoothly as their singular value falls (numerical filtering: Chiaverini,
"Singularity-robust task-priority redundancy resolution", IEEE Trans. Robot. Autom. 13, 1997). Away
from singularities the solution is exact. One body for numpy and torch, on batches; not for gradients.
"""

from __future__ import annotations

import array_api_compat
import numpy as np

from ..contract.tool_action import InverseKinematics
from .arrays import Array
from .limits import bound


def solve(jacobian: Array, motion: Array, settings: InverseKinematics, free: Array = None) -> Array:
    """Joint motion (..., J) whose tool motion J·dq comes nearest to `motion` (..., 6).

    jacobian: (..., 6, J), m/rad and rad/rad. motion: m and rad (or both per second). free: (..., J)
    joint motion that is added as far as it doesn't move the tool; with six joints nothing of it is.
    For finite input the result is finite at every pose: a direction of singular value σ gets
    σ/(σ² + λ²) of its part, λ = 0 for σ ≥ singular_below, λ² = damping² (1 - (σ/singular_below)²) below.
    """
    xp = array_api_compat.array_namespace(jacobian, motion)
    like = {"dtype": jacobian.dtype, "device": array_api_compat.device(jacobian)}
    weight = xp.asarray([1.0, 1.0, 1.0, *([settings.length_m] * 3)], **like)
    a = jacobian * weight[:, None]  # all rows in m/rad
    at = xp.matrix_transpose(a)
    square, u = xp.linalg.eigh(a @ at)  # eigenvalues σ², ascending; columns of u
    square = bound(square, xp.zeros_like(square), square + 1.0)  # rounding may leave -1e-18
    limit2 = settings.singular_below**2
    near = bound(1.0 - square / limit2, xp.zeros_like(square), xp.ones_like(square))
    gain = 1.0 / (square + settings.damping**2 * near)
    back = at @ (u * gain[..., None, :])  # (..., J, 6)
    ut = xp.matrix_transpose(u)
    joints = back @ (ut @ (motion * weight)[..., None])
    if free is not None:
        joints = joints + free[..., None] - back @ (ut @ (a @ free[..., None]))
    return joints[..., 0]


def slowed(motion: Array, max_motion: Array) -> tuple[Array, Array]:
    """`motion` (..., J) shortened so that no joint exceeds `max_motion` (J,); and the factor (..., 1).

    All joints by the same factor: the tool goes the same way, slower.
    """
    xp = array_api_compat.array_namespace(motion)
    excess = xp.max(xp.abs(motion) / max_motion, axis=-1, keepdims=True)
    factor = 1.0 / bound(excess, xp.ones_like(excess), excess + 1.0)
    return motion * factor, factor


def smallest_singular_value(jacobian: np.ndarray, length_m: float) -> float:
    """Of one Jacobian (6, J), with 1 rad counted as `length_m`; m/rad. 0 at a singularity."""
    weight = np.array([1.0, 1.0, 1.0, *([length_m] * 3)])
    return float(np.linalg.svd(jacobian * weight[:, None], compute_uv=False)[-1])
