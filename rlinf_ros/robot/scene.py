"""What a picture of the robot needs besides physics: surfaces, floor, table, lights, a camera."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlinf_ros.robot.description import RobotDescription

FLOOR_BELOW_TABLE_M = 0.72
CAMERA = "overview"


def dress(spec: Any, robot: RobotDescription, *, meshes: bool) -> None:
    """Add the looks to a spec whose URDF visuals are still in it. Contacts stay as they are."""
    import mujoco

    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    spec.visual.headlight.ambient = (0.32, 0.32, 0.34)
    spec.visual.headlight.diffuse = (0.22, 0.22, 0.22)
    spec.visual.headlight.specular = (0.05, 0.05, 0.05)
    spec.visual.quality.shadowsize = 1024
    spec.visual.map.znear, spec.visual.map.zfar = 0.02, 30.0
    spec.add_material(name="plastic", specular=0.35, shininess=0.55)
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=(0.93, 0.95, 0.97),
        rgb2=(0.62, 0.70, 0.80),
        width=64,
        height=384,
    )
    from rlinf_ros.robot.meshes import add_meshes

    if not (meshes and add_meshes(spec, robot)):
        for geom in spec.geoms:
            if geom.contype == 0 and geom.conaffinity == 0:
                geom.group, geom.material = 2, "plastic"
    _add_floor_and_table(spec, robot)
    for position, diffuse, shadow in (
        ((0.8, -1.2, 2.4), 0.55, True),
        ((-1.2, 1.6, 2.0), 0.22, False),
    ):
        spec.worldbody.add_light(
            pos=position,
            dir=np.array([0.3, 0.0, 0.2]) - position,
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            diffuse=(diffuse,) * 3,
            specular=(0.25 if shadow else 0.0,) * 3,
            castshadow=shadow,
        )
    eye, target = np.array([1.45, -1.25, 0.95]), np.array([0.27, 0.0, 0.34])
    spec.worldbody.add_camera(name=CAMERA, pos=eye, quat=_look_at(eye, target), fovy=33.0)


def _add_floor_and_table(spec: Any, robot: RobotDescription) -> None:
    import mujoco

    spec.add_texture(
        name="floor",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        rgb1=(0.86, 0.87, 0.88),
        markrgb=(0.80, 0.81, 0.83),
        width=300,
        height=300,
    )
    floor = spec.add_material(name="floor", texrepeat=(2.0, 2.0), texuniform=True, specular=0.1)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"
    spec.add_material(name="board", rgba=(0.93, 0.91, 0.87, 1.0), specular=0.25, shininess=0.4)
    spec.add_material(name="leg", rgba=(0.30, 0.32, 0.35, 1.0), specular=0.2)
    common: dict[str, Any] = {"contype": 0, "conaffinity": 0, "group": 2}
    box = mujoco.mjtGeom.mjGEOM_BOX
    table = robot.simulation.table
    x, y, top = table.top_center_m
    length, width, thickness = table.size_m
    floor_z = top - FLOOR_BELOW_TABLE_M
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=(x, y, floor_z),
        size=(6.0, 6.0, 0.1),
        material="floor",
        **common,
    )
    spec.worldbody.add_geom(
        type=box,
        pos=(x, y, top - thickness / 2),
        size=(length / 2, width / 2, thickness / 2),
        material="board",
        **common,
    )
    half = (top - thickness - floor_z) / 2
    for side_x in (-1, 1):
        for side_y in (-1, 1):
            spec.worldbody.add_geom(
                type=box,
                pos=(
                    x + side_x * (length / 2 - 0.06),
                    y + side_y * (width / 2 - 0.06),
                    floor_z + half,
                ),
                size=(0.03, 0.03, half),
                material="leg",
                **common,
            )


def _look_at(eye: np.ndarray, target: np.ndarray) -> np.ndarray:
    """wxyz of a camera at `eye` that sees `target`, up along z; a camera looks along its -z."""
    import mujoco

    back = (eye - target) / np.linalg.norm(eye - target)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(back, right), back], axis=1).ravel())
    return quat
