"""Forward kinematics and Jacobian of the arm's chain, batched: one body for numpy and torch, with gradients.

The fixed transforms between the joints are folded once, at construction. At run time a rotation is
three axes, arrays of shape (3, N): a turn about z mixes two of them, and a fixed turn by 90° only
renames them, so no stacked 3×3 products are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.pipeline.rotations import matrix_to_quat
from rlinf_ros.robot.description import RobotDescription
from rlinf_ros.robot.urdf import UrdfJoint, chain

Array = Any  # a numpy or torch array


class Kinematics:
    """Pose of a tool link in a base link from joint positions in the robot's joint order."""

    def __init__(
        self, start: np.ndarray, joints: tuple[UrdfJoint, ...], joint_names: tuple[str, ...]
    ) -> None:
        """start: (4, 4), base link ← first joint's parent. joints: from there down to the tool."""
        self.joint_names = joint_names
        self._steps: list[_Step] = []
        transform = start
        for joint in joints:
            transform = transform @ joint.origin
            if not joint.movable:
                continue
            if joint.name not in joint_names:
                raise ConfigError(
                    f"moving joint '{joint.name}' is not one of the robot's joints",
                    where="kinematics",
                    allowed=joint_names,
                )
            align = _z_to(joint.axis)  # turn about `axis` = align · turn about z · alignᵀ
            fixed = _Fixed.of(transform @ align)
            parallel = bool(self._steps) and fixed.keeps_axes
            self._steps.append(
                _Step(fixed, joint_names.index(joint.name), joint.child, parallel, align)
            )
            transform = align.T
        self._end = _Fixed.of(transform)

    @classmethod
    def from_robot(
        cls, robot: RobotDescription, base: str | None = None, tool: str | None = None
    ) -> Kinematics:
        """Chain `base` → `tool` of the robot's URDF; by default the robot's base and tool frames.

        Raises ConfigError for an unknown link or a base that is not fixed to the arm's root.
        """
        start, joints = chain(
            robot.urdf_joints,
            base or robot.frames.base,
            tool or robot.frames.tool,
            where=str(robot.urdf_path),
        )
        return cls(start, joints, robot.joint_names)

    def forward(self, q: Array) -> tuple[Array, Array]:
        """Joints (..., J) rad → tool position (..., 3) m and matrix (..., 3, 3) in base."""
        pose = self.pose(q)
        return pose.position(), pose.matrix()

    def pose(self, q: Array) -> ToolPose:
        """Joints (..., J) rad → the tool's pose in base, for who may need a part of it only."""
        xp, rows, frame = self._begin(q)
        for step in self._steps:
            frame = step.advance(xp, frame, rows)
        return ToolPose(xp, frame, self._end, q.shape[:-1])

    def jacobian(self, q: Array) -> tuple[ToolPose, Array]:
        """(..., J) → the tool's pose, and the geometric Jacobian (..., 6, J) at it, in base.

        Rows: velocity of the tool link's origin in m/s, then angular velocity in rad/s, per rad/s of
        each joint. For a joint with axis z through o the column is (z × (p - o), z).
        """
        xp, rows, frame = self._begin(q)
        through: list[tuple[Array, Array]] = []
        for step in self._steps:
            frame = step.advance(xp, frame, rows)
            axis, sign = frame.axis(2)
            through.append((axis * sign, frame.position))
        pose = ToolPose(xp, frame, self._end, q.shape[:-1])
        p = frame.moved(self._end.offset).position
        columns = [xp.zeros((6, p.shape[1]), dtype=q.dtype, device=device(q))] * len(rows)
        for step, (z, origin) in zip(self._steps, through, strict=True):
            z, r = xp.broadcast_to(z, p.shape), p - origin
            linear = [z[i - 2] * r[i - 1] - z[i - 1] * r[i - 2] for i in range(3)]
            columns[step.index] = xp.stack([*linear, z[0], z[1], z[2]], axis=0)
        jacobian = xp.permute_dims(xp.stack(columns, axis=0), (2, 1, 0))
        return pose, xp.reshape(jacobian, (*q.shape[:-1], 6, len(rows)))

    def forward_pose(self, q: Array) -> tuple[Array, Array]:
        """(..., J) → tool position (..., 3) m and orientation (..., 4) xyzw, w ≥ 0, in base."""
        position, matrix = self.forward(q)
        return position, matrix_to_quat(matrix)

    def forward_links(self, q: Array) -> dict[str, tuple[Array, Array]]:
        """Position (..., 3) and matrix (..., 3, 3) in base of each link that a joint moves."""
        xp, rows, frame = self._begin(q)
        links = {}
        for step in self._steps:
            frame = step.advance(xp, frame, rows)
            pose = ToolPose(xp, frame, _Fixed.of(step.align.T), q.shape[:-1])
            links[step.link] = pose.position(), pose.matrix()
        return links

    def _begin(self, q: Array) -> tuple[Any, list[Array], _Frame]:
        xp, joints = array_namespace(q), len(self.joint_names)
        if q.shape[-1] != joints:
            raise ValueError(f"q has {q.shape[-1]} columns for {joints} joints")
        flat = xp.reshape(q, (-1, joints))
        eye = xp.eye(3, dtype=q.dtype, device=device(q))
        zero = xp.zeros((3, flat.shape[0]), dtype=q.dtype, device=device(q))
        axes = tuple((eye[:, i : i + 1], 1.0) for i in range(3))
        return xp, [flat[:, i] for i in range(joints)], _Frame(zero, axes)


class ToolPose:
    """A link's pose in base; what nobody asks for is not computed."""

    def __init__(self, xp: Any, joint: _Frame, end: _Fixed, batch: tuple[int, ...]) -> None:
        """joint: the frame behind the last joint, N = prod(batch) columns; end: fixed, from there."""
        self._xp, self._joint, self._end, self._batch = xp, joint, end, batch

    def position(self) -> Array:
        """(..., 3) in m."""
        position = self._joint.moved(self._end.offset).position
        return self._shaped(self._xp.permute_dims(position, (1, 0)), 3)

    def matrix(self) -> Array:
        """(..., 3, 3) base ← link."""
        frame, xp = self._end.apply(self._joint), self._xp
        columns = [axis if sign > 0 else -axis for axis, sign in map(frame.axis, range(3))]
        if any(column.shape != frame.position.shape for column in columns):  # one that never turned
            columns = [xp.broadcast_to(column, frame.position.shape) for column in columns]
        return self._shaped(xp.permute_dims(xp.stack(columns, axis=0), (2, 1, 0)), 3, 3)

    def _shaped(self, x: Array, *tail: int) -> Array:
        return x if len(self._batch) == 1 else self._xp.reshape(x, (*self._batch, *tail))


_Axis = tuple[Array, float]  # (3, N) and its sign: turning an axis round costs nothing


class _Frame:
    """A frame in base: origin (3, N) and axes; the last turn about z is kept open as an angle.

    Joints about parallel axes, three in a row on a UR, then add their angles and the axes between
    them are computed only where an offset along them needs one.
    """

    def __init__(
        self, position: Array, axes: tuple[_Axis, ...], angle: Array = None, turn: Any = None
    ) -> None:
        """angle: (N,) of the open turn; turn: its (cos, sin)."""
        self.position, self._axes, self._angle, self._turn = position, axes, angle, turn

    def axis(self, i: int) -> _Axis:
        if self._angle is None or i == 2:
            return self._axes[i]
        (x, x_sign), (y, y_sign) = self._axes[:2]
        cos, sin = self._turn
        same = x_sign == y_sign
        if i == 0:
            a, b = cos * x, sin * y
            return (a + b if same else a - b), x_sign
        a, b = cos * y, sin * x
        return (a - b if same else a + b), y_sign

    def moved(self, offset: tuple[tuple[int, float], ...]) -> _Frame:
        """Moved by (axis, metres) pairs along its own axes."""
        position = self.position
        for i, metres in offset:
            axis, sign = self.axis(i)
            position = position + (metres * sign) * axis
        return _Frame(position, self._axes, self._angle, self._turn)

    def turned(self, xp: Any, angle: Array, add: bool) -> _Frame:
        """Turned about its z axis; with `add` on top of the open angle."""
        if add:
            angle = self._angle + angle
        return _Frame(self.position, self._axes, angle, (xp.cos(angle), xp.sin(angle)))


@dataclass(frozen=True)
class _Fixed:
    """A constant transform as lists of (axis, factor), zeros left out."""

    offset: tuple[tuple[int, float], ...]
    mix: tuple[tuple[tuple[int, float], ...], ...]  # per new axis, the old ones it is made of

    @classmethod
    def of(cls, transform: np.ndarray) -> _Fixed:
        rotation = transform[:3, :3]
        # cos(π/2) in a URDF is 6e-17: taken for 0, a turn by 90° only renames axes
        whole = np.round(rotation)
        rotation = np.where(np.abs(rotation - whole) < 1e-12, whole, rotation)
        return cls(
            offset=tuple((i, float(v)) for i, v in enumerate(transform[:3, 3]) if v != 0.0),
            mix=tuple(
                tuple((i, float(v)) for i, v in enumerate(rotation[:, k]) if v != 0.0)
                for k in range(3)
            ),
        )

    @property
    def keeps_axes(self) -> bool:
        return self.mix == (((0, 1.0),), ((1, 1.0),), ((2, 1.0),))

    def apply(self, frame: _Frame) -> _Frame:
        axes = [frame.axis(i) for i in range(3)]
        return _Frame(
            frame.moved(self.offset).position, tuple(_combine(axes, terms) for terms in self.mix)
        )


@dataclass(frozen=True, eq=False)
class _Step:
    """A joint: the fixed transform before it, its column in q, the link behind it.

    parallel: its axis and zero are those of the joint before, moved. align: (4, 4) z ← joint axis.
    """

    fixed: _Fixed
    index: int
    link: str
    parallel: bool
    align: np.ndarray

    def advance(self, xp: Any, frame: _Frame, rows: list[Array]) -> _Frame:
        """From the frame of the joint before to this joint's; rows: q by joint."""
        frame = frame.moved(self.fixed.offset) if self.parallel else self.fixed.apply(frame)
        return frame.turned(xp, rows[self.index], add=self.parallel)


def _combine(axes: list[_Axis], terms: tuple[tuple[int, float], ...]) -> _Axis:
    (i, factor), *rest = terms
    axis, sign = axes[i]
    if abs(factor) == 1.0 and not rest:
        return axis, sign * factor
    total = (sign * factor) * axis
    for i, factor in rest:
        axis, sign = axes[i]
        total = total + (sign * factor) * axis
    return total, 1.0


def _z_to(axis: np.ndarray) -> np.ndarray:
    """(4, 4) rotation that takes the z axis to the unit vector `axis`."""
    out = np.eye(4)
    if axis[2] < 1.0:
        x = np.cross(np.eye(3)[int(np.argmin(np.abs(axis)))], axis)
        x /= np.linalg.norm(x)
        out[:3, :3] = np.stack([x, np.cross(axis, x), axis], axis=1)
    return out
