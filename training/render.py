"""Pictures of the arm without any graphics driver: rays cast by MuJoCo on the CPU, shaded in NumPy.

`mujoco.Renderer` needs EGL or OSMesa from the system, which a fresh machine lacks; a short clip of
primitive shapes is cheap enough without.
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.batch import Batch
from PIL import Image

from rlinf_ros.robot.description import RobotDescription
from rlinf_ros.robot.mujoco_model import GOAL_BODY, GOAL_GROUP, build_model

_EYE = np.array([1.35, -1.15, 0.95])  # m, base_link
_LOOK_AT = np.array([0.28, 0.0, 0.32])
_FIELD_OF_VIEW_RAD = np.deg2rad(42.0)
_LIGHT = np.array([0.35, -0.45, 0.82])  # direction toward the light
_FLOOR = (0.80, 0.82, 0.84)  # its material is a texture, which the rays do not read
_SOLID_GROUPS = (0, 2)  # colliders, in group 3, stay hidden
_CHUNK = 8  # frames cast at once: bounds the memory
_SKY = np.array([[0.93, 0.95, 0.98], [0.70, 0.78, 0.88]])  # bottom, top

Frames = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float64]


def render_frames(
    robot: RobotDescription,
    joint_position: npt.NDArray[np.float64],
    goal_position: npt.NDArray[np.float64],
    goal_quat_xyzw: npt.NDArray[np.float64],
    *,
    width: int = 320,
    height: int = 240,
    threads: int = 0,
) -> Frames:
    """Images (F, H, W, 3) of arm poses (F, J) in rad with goals (F, 3) in m and (F, 4) xyzw."""
    model = build_model(robot, visuals="primitives", goal_marker=True)
    camera, colors = _Camera(width, height), _geom_colors(model)
    frames = []
    for start in range(0, len(joint_position), _CHUNK):
        rows = slice(start, start + _CHUNK)
        q = joint_position[rows]
        batch = Batch(model, len(q), threads)
        batch.bind("qpos")[:, : q.shape[1]] = q
        mocap = model.body(GOAL_BODY).mocapid[0]
        batch.bind("mocap_pos")[:, mocap] = goal_position[rows]
        batch.bind("mocap_quat")[:, mocap] = goal_quat_xyzw[rows][:, [3, 0, 1, 2]]
        frames.append(_draw(batch, camera, colors))
    image = np.concatenate(frames)
    return (np.clip(image, 0.0, 1.0) ** (1 / 2.2) * 255.0 + 0.5).astype(np.uint8)


def save_animation(path: str | Path, frames: Frames, fps: float) -> None:
    """Write an endlessly repeating GIF."""
    images = [Image.fromarray(frame).quantize(128, dither=Image.Dither.NONE) for frame in frames]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0
    )


class _Camera:
    """Rays of the pixels; x and y in pixels from the top left corner."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        forward = _LOOK_AT - _EYE
        self._forward = forward / np.linalg.norm(forward)
        right = np.cross(self._forward, [0.0, 0.0, 1.0])
        self._right = right / np.linalg.norm(right)
        self._up = np.cross(self._right, self._forward)

    def rays(self, x: Array, y: Array) -> Array:
        """Unit vectors (..., 3)."""
        scale = 2.0 * np.tan(_FIELD_OF_VIEW_RAD / 2) / self.height
        across = ((x - self.width / 2) * scale)[..., None] * self._right
        rays = self._forward + across + ((self.height / 2 - y) * scale)[..., None] * self._up
        return rays / np.linalg.norm(rays, axis=-1, keepdims=True)


def _geom_colors(model: mujoco.MjModel) -> Array:
    """(ngeom, 4). As MuJoCo draws: a geom's own colour, if it has one, goes before its material's."""
    colors = model.geom_rgba.astype(np.float64)
    default = np.all(model.geom_rgba == (0.5, 0.5, 0.5, 1.0), axis=1)
    with_material = default & (model.geom_matid >= 0)
    colors[with_material] = model.mat_rgba[model.geom_matid[with_material]]
    floor = with_material & (model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    colors[floor, :3] = _FLOOR
    return colors


def _draw(batch: Batch, camera: _Camera, colors: Array) -> Array:
    """Linear colours (F, H, W, 3): one ray a pixel, and four where neighbours differ."""
    height, width = camera.height, camera.width
    y, x = (v.ravel() for v in np.mgrid[0:height, 0:width] + 0.5)
    image, label = _shade(
        batch, np.broadcast_to(camera.rays(x, y), (batch.nsim, len(x), 3)), colors
    )
    image, label = image.reshape(-1, height, width, 3), label.reshape(-1, height, width)
    edge = np.zeros_like(label, dtype=bool)
    edge[:, :, 1:] |= label[:, :, 1:] != label[:, :, :-1]
    edge[:, 1:, :] |= label[:, 1:, :] != label[:, :-1, :]
    edge[:, :, :-1] |= edge[:, :, 1:]
    edge[:, :-1, :] |= edge[:, 1:, :]
    pixels = [np.flatnonzero(frame) for frame in edge]
    most = max(len(p) for p in pixels)
    if most == 0:
        return image
    padded = np.stack([np.resize(p if len(p) else [0], most) for p in pixels])
    quarter = np.array([[-0.25, -0.25], [0.25, -0.25], [-0.25, 0.25], [0.25, 0.25]])
    rays = camera.rays(
        x[padded][..., None] + quarter[:, 0], y[padded][..., None] + quarter[:, 1]
    ).reshape(batch.nsim, -1, 3)
    finer = _shade(batch, rays, colors)[0].reshape(batch.nsim, most, 4, 3).mean(axis=2)
    flat = image.reshape(batch.nsim, -1, 3)
    np.put_along_axis(flat, padded[..., None], finer, axis=1)
    return image


def _shade(batch: Batch, rays: Array, colors: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Colours (F, R, 3) along rays (F, R, 3), and a label that changes at the edges of things."""
    solid, goal = np.zeros((2, mujoco.mjNGROUP), np.uint8)
    solid[list(_SOLID_GROUPS)] = goal[GOAL_GROUP] = 1
    distance, geom, normal = batch.ray(_EYE, rays, geomgroup=solid, normal=True)
    hit = geom >= 0
    point = _EYE + np.where(hit, distance, 0.0)[..., None] * rays + 1e-4 * normal
    shadow = batch.ray(point, np.broadcast_to(_LIGHT, point.shape), geomgroup=solid)[1] >= 0
    facing = np.clip(normal @ (_LIGHT / np.linalg.norm(_LIGHT)), 0.0, 1.0)
    light = 0.25 + 0.15 * np.clip(normal[..., 2], 0.0, 1.0) + np.where(shadow, 0.0, 0.55 * facing)
    sky = _SKY[0] + (_SKY[1] - _SKY[0]) * np.clip(rays[..., 2:] + 0.75, 0.0, 1.0)
    image = np.where(hit[..., None], colors[geom, :3] ** 2.2 * light[..., None], sky**2.2)
    goal_distance, goal_geom = batch.ray(_EYE, rays, geomgroup=goal)
    over = (goal_geom >= 0) & (~hit | (goal_distance < distance))
    alpha = np.where(over, np.maximum(colors[goal_geom, 3], 0.5), 0.0)[..., None]
    image = image * (1 - alpha) + colors[goal_geom, :3] ** 2.2 * alpha
    label = geom * 4 + np.where(hit & shadow, 2, 0) + over
    return image, label
