"""The MuJoCo model of a robot, compiled from the URDF that the pipeline's kinematics reads.

    model = build_model(load_robot("ur5e"))            # physics only: for training and the twin
    model = build_model(robot, visuals="meshes")       # for pictures; the same physics

base_link is the world's origin. Joints and actuators bear the joints' names, in controller order;
`ctrl` is the position target in rad. The tool link is a site. qpos, qvel and ctrl have J elements.
MuJoCo is imported inside the functions, so the description can be read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.robot.description import RobotDescription
from rlinf_ros.robot.urdf import chain

if TYPE_CHECKING:
    import mujoco

# Collision bits: two geoms can touch when one's contype meets the other's conaffinity. Table and
# base of the arm are SCENE; an object of a task takes contype = conaffinity = ARM | SCENE.
ARM, SCENE = 1, 2
VISUALS = ("none", "primitives", "meshes")
GOAL_BODY = "goal"  # mocap body; move it by mocap_pos and mocap_quat (wxyz) of a MjData or a Batch
GOAL_GROUP = 1  # its geoms alone are in this group, so a picture can leave them out


def build_model(
    robot: RobotDescription,
    *,
    table: bool = True,
    goal_marker: bool = True,
    visuals: str = "none",
) -> mujoco.MjModel:
    """Compiled model of `build_spec`, made faster to step by what holds for an arm alone.

    Its controller compensates gravity, so gravity is off; contacts with table and base are listed
    pairs, which saves their broad phase. Motion and contacts equal those of `build_spec`.
    """
    import mujoco

    spec = build_spec(robot, table=table, goal_marker=goal_marker, visuals=visuals)
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    scene = [geom for geom in spec.geoms if geom.contype == SCENE]
    reach = [geom for geom in spec.geoms if geom.conaffinity & SCENE]
    for i, geom in enumerate(scene + reach):
        geom.name = geom.name or f"collider_{i}"
    for fixed in scene:
        fixed.contype = 0
        for geom in reach:
            spec.add_pair(geomname1=fixed.name, geomname2=geom.name)
    for geom in reach:
        geom.conaffinity = ARM
    return spec.compile()


def build_spec(
    robot: RobotDescription,
    *,
    table: bool = True,
    goal_marker: bool = True,
    visuals: str = "none",
) -> mujoco.MjSpec:
    """An editable model: add the objects of a task, then `.compile()`.

    table: the plane of the table's top, infinite for contacts, through `top_center_m`.
    goal_marker: the mocap body `goal`. visuals: `none` draws the colliders and steps fastest;
    `primitives` draws the URDF's visual shapes; `meshes` the maker's shapes where their package is
    installed, else primitives. Both bring lights, floor, table top and the camera `overview`.
    """
    import mujoco

    if visuals not in VISUALS:
        raise ConfigError(f"visuals={visuals!r} is not known", where="build_spec", allowed=VISUALS)
    spec = mujoco.MjSpec.from_file(str(robot.urdf_path))
    spec.modelname = robot.name
    spec.option.timestep = robot.simulation.sim_dt_s
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # stiff servos, large step
    _set_colliders(spec, robot, hidden=visuals != "none")
    _set_servos(spec, robot)
    _add_tool(spec, robot)
    if table:
        _add_table(spec, robot, hidden=visuals != "none")
    if visuals == "none":
        for geom in [geom for geom in spec.geoms if _is_visual(geom)]:
            spec.delete(geom)
    else:
        from rlinf_ros.robot.scene import dress

        dress(spec, robot, meshes=visuals == "meshes")
    if goal_marker:
        _add_goal(spec)
    return spec


def _is_visual(geom: Any) -> bool:
    return bool(geom.contype == 0 and geom.conaffinity == 0)


def _set_colliders(spec: Any, robot: RobotDescription, hidden: bool) -> None:
    """Capsules instead of long cylinders (cheaper, rounder); bits by what can meet.

    The first moving link turns about the base's own axis and cannot reach the scene.
    """
    import mujoco

    _, joints = chain(robot.urdf_joints, robot.frames.base, robot.frames.tool)
    moving = [joint.child for joint in joints if joint.movable]
    for body in spec.bodies:
        body.gravcomp = 1.0 if body.name in moving else 0.0  # the arm's controller does this
        for geom in body.geoms:
            if _is_visual(geom):
                geom.mass = 0.0
                continue
            geom.group = 3 if hidden else 0
            geom.rgba = (0.62, 0.66, 0.70, 1.0)
            radius, half = geom.size[0], geom.size[1]
            if (
                geom.type == mujoco.mjtGeom.mjGEOM_CYLINDER
                and half > radius
                and body.name in moving
            ):
                geom.type = mujoco.mjtGeom.mjGEOM_CAPSULE
                geom.size = (radius, half - radius, 0.0)
            if body.name not in moving:
                geom.contype, geom.conaffinity = SCENE, 0
            else:
                geom.contype, geom.conaffinity = ARM, ARM if body.name == moving[0] else ARM | SCENE


def _set_servos(spec: Any, robot: RobotDescription) -> None:
    import mujoco

    for joint, servo in zip(robot.joints, robot.simulation.servos, strict=True):
        element = spec.joint(joint.name)
        element.armature = servo.armature
        element.damping = (servo.damping, 0.0, 0.0)  # linear; no higher powers of the velocity
        element.actfrclimited = False  # the actuator below has the limit
        actuator = spec.add_actuator(
            name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        actuator.set_to_position(kp=servo.kp, kv=servo.kd)
        actuator.ctrllimited = actuator.forcelimited = True
        actuator.ctrlrange = (joint.lower_rad, joint.upper_rad)
        actuator.forcerange = (-joint.effort_nm, joint.effort_nm)


def _add_tool(spec: Any, robot: RobotDescription) -> None:
    """The tool link as a site of the last moving link, and the payload."""
    _, joints = chain(robot.urdf_joints, robot.frames.base, robot.frames.tool)
    last = max(i for i, joint in enumerate(joints) if joint.movable)
    pose = np.eye(4)
    for joint in joints[last + 1 :]:
        pose = pose @ joint.origin
    body = spec.body(joints[last].child)
    quat = _mat_to_quat(pose[:3, :3])
    body.add_site(name=robot.frames.tool, pos=pose[:3, 3], quat=quat, size=(0.005,) * 3, group=4)
    if robot.payload.mass_kg > 0:
        radius = 0.05  # of a plausible compact gripper
        body.add_body(
            name="payload",
            pos=pose[:3, 3] + pose[:3, :3] @ robot.payload.center_m,
            ipos=(0.0, 0.0, 0.0),  # left out, MuJoCo would take `pos` for it
            mass=robot.payload.mass_kg,
            inertia=(0.4 * robot.payload.mass_kg * radius**2,) * 3,
            explicitinertial=True,
            gravcomp=1.0,
        )


def _add_table(spec: Any, robot: RobotDescription, hidden: bool) -> None:
    """A plane, not a box: its contacts are ruled out by one product per collider."""
    import mujoco

    table = robot.simulation.table
    spec.worldbody.add_geom(
        name="table",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=table.top_center_m,
        size=(table.size_m[0] / 2, table.size_m[1] / 2, 0.1),
        contype=SCENE,
        conaffinity=0,
        group=3 if hidden else 0,
        rgba=(0.80, 0.74, 0.66, 1.0),
    )


def _add_goal(spec: Any) -> None:
    """A translucent ball with the goal's three axes; touches nothing."""
    import mujoco

    body = spec.worldbody.add_body(name=GOAL_BODY, mocap=True, pos=(0.5, 0.1, 0.4))
    common: dict[str, Any] = {"contype": 0, "conaffinity": 0, "mass": 0.0, "group": GOAL_GROUP}
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(0.03, 0, 0), rgba=(0.95, 0.5, 0.1, 0.35), **common
    )
    for axis in range(3):
        end = [0.0] * 6
        end[3 + axis] = 0.08
        rgba = [0.15, 0.15, 0.15, 1.0]
        rgba[axis] = 0.9
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=end, size=(0.004, 0, 0), rgba=rgba, **common
        )


def _mat_to_quat(matrix: np.ndarray) -> np.ndarray:
    """wxyz, MuJoCo's order."""
    import mujoco

    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(matrix).ravel())
    return quat
