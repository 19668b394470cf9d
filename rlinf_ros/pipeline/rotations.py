"""Rotations on arrays `(..., 4)`, `(..., 3, 3)`, `(..., 3)`: one body for numpy and torch.

Quaternions are xyzw and unit length. q and -q are the same rotation. Functions that make a
quaternion return the one with w ≥ 0; near a turn of π this choice flips between neighbours, so an
observation that comes near π (a tool pointing down does) should use `matrix_to_rot6d`.
Gradients are finite everywhere, also at the identity.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from rlinf_ros.contract.errors import ConfigError

Array = Any  # a numpy or torch array


def quat_multiply(a: Array, b: Array) -> Array:
    """Hamilton product: first turn by `b`, then by `a`. (..., 4) × (..., 4) → (..., 4)."""
    xp = array_namespace(a, b)
    ax, ay, az, aw = (a[..., i] for i in range(4))
    bx, by, bz, bw = (b[..., i] for i in range(4))
    return xp.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        axis=-1,
    )


def quat_conjugate(q: Array) -> Array:
    """The inverse turn of a unit quaternion."""
    xp = array_namespace(q)
    return xp.concat([-q[..., :3], q[..., 3:]], axis=-1)


def quat_rotate(q: Array, v: Array) -> Array:
    """Turn vectors `v` (..., 3) by `q` (..., 4)."""
    xp = array_namespace(q, v)
    u, w = xp.broadcast_arrays(q[..., :3], v)[0], q[..., 3:]
    t = 2.0 * _cross(xp, u, v)
    return v + w * t + _cross(xp, u, t)


def quat_to_matrix(q: Array) -> Array:
    """(..., 4) → (..., 3, 3)."""
    xp = array_namespace(q)
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def matrix_to_quat(m: Array) -> Array:
    """(..., 3, 3) → (..., 4) with w ≥ 0; exact near every turn, π included.

    The entries of 4 q qᵀ are sums of matrix entries (Shepperd 1978); the row with the largest
    diagonal, which is at least 1, is normalised, so nothing small is ever divided by.
    """
    xp = array_namespace(m)
    (a, b, c), (d, e, f), (g, h, i) = ([m[..., r, k] for k in range(3)] for r in range(3))
    xx, yy, zz, ww = 1 + a - e - i, 1 - a + e - i, 1 - a - e + i, 1 + a + e + i
    xy, xz, yz, xw, yw, zw = b + d, c + g, f + h, h - f, c - g, d - b
    largest = xp.argmax(xp.stack([xx, yy, zz, ww], axis=0), axis=0)
    q = xp.stack([xw, yw, zw, ww], axis=0)
    for k, row in enumerate([[xx, xy, xz, xw], [xy, yy, yz, yw], [xz, yz, zz, zw]]):
        q = xp.where(largest == k, xp.stack(row, axis=0), q)
    length = xp.sqrt(xp.sum(q * q, axis=0))
    return xp.moveaxis(q / xp.where(q[3] < 0, -length, length), 0, -1)


def quat_from_rotvec(v: Array) -> Array:
    """Rotation vector (axis × angle, rad) (..., 3) → (..., 4)."""
    xp = array_namespace(v)
    square = xp.sum(v * v, axis=-1, keepdims=True)
    small = square < _SMALL
    angle = xp.sqrt(xp.where(small, xp.ones_like(square), square))
    scale = xp.where(small, 0.5 - square / 48.0, xp.sin(0.5 * angle) / angle)
    w = xp.where(small, 1.0 - square / 8.0, xp.cos(0.5 * angle))
    q = xp.concat([v * scale, w], axis=-1)
    return xp.where(w < 0, -q, q)


def quat_to_rotvec(q: Array) -> Array:
    """(..., 4) → rotation vector (..., 3), rad, the shorter way round (length ≤ π)."""
    xp = array_namespace(q)
    q = xp.where(q[..., 3:] < 0, -q, q)
    v, w = q[..., :3], q[..., 3:]
    square = xp.sum(v * v, axis=-1, keepdims=True)
    small = square < _SMALL
    sine = xp.sqrt(xp.where(small, xp.ones_like(square), square))
    scale = xp.where(small, 2.0 + square / 3.0, 2.0 * xp.atan2(sine, w) / sine)
    return v * scale


def quat_angle(a: Array, b: Array) -> Array:
    """Angle between two orientations (...,), rad in [0, π]; the signs of a and b don't matter."""
    xp = array_namespace(a, b)
    d = quat_multiply(quat_conjugate(a), b)
    square = xp.sum(d[..., :3] * d[..., :3], axis=-1)
    zero = square <= 0
    sine = xp.where(zero, xp.zeros_like(square), xp.sqrt(xp.where(zero, square + 1.0, square)))
    return 2.0 * xp.atan2(sine, xp.abs(d[..., 3]))


def xyzw_to_wxyz(q: Array) -> Array:
    """For MuJoCo, which stores w first."""
    xp = array_namespace(q)
    return xp.concat([q[..., 3:], q[..., :3]], axis=-1)


def wxyz_to_xyzw(q: Array) -> Array:
    """From MuJoCo, which stores w first."""
    xp = array_namespace(q)
    return xp.concat([q[..., 1:], q[..., :1]], axis=-1)


def matrix_to_rot6d(m: Array) -> Array:
    """x axis, then y axis: (..., 3, 3) → (..., 6). Continuous (Zhou et al. 2019)."""
    xp = array_namespace(m)
    return xp.concat([m[..., :, 0], m[..., :, 1]], axis=-1)


def check_quat(q: Array, tol: float = 1e-3, *, where: str = "quat_xyzw") -> Array:
    """`q` (..., 4) scaled to length 1; a length off by more than `tol`, or NaN, is an error."""
    if q.shape[-1:] != (4,):
        raise ConfigError(f"expected 4 values x, y, z, w, got shape {tuple(q.shape)}", where=where)
    xp = array_namespace(q)
    length = xp.sqrt(xp.sum(q * q, axis=-1, keepdims=True))
    for value in xp.reshape(length, (-1,)).tolist():
        if not abs(value - 1.0) <= tol:  # also true for NaN
            raise ConfigError(
                f"not a unit quaternion, its length is {value}",
                where=where,
                allowed=f"length 1 ± {tol}, order x, y, z, w",
                fix="normalise it at its source; (0, 0, 0, 1) is no turn",
            )
    return q / length


_SMALL = 1e-8  # squared half-angle: below it the series above are exact to float64


def _cross(xp: Any, a: Array, b: Array) -> Array:
    ax, ay, az = (a[..., i] for i in range(3))
    bx, by, bz = (b[..., i] for i in range(3))
    return xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)
