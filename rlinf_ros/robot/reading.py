"""Reads robot.yaml strictly and holds it against the URDF."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.fields import Fields, parse_yaml, read_text
from rlinf_ros.robot.description import (
    Driver,
    Frames,
    Joint,
    JointServo,
    Payload,
    RobotDescription,
    Safety,
    Simulation,
    Table,
    Visual,
)
from rlinf_ros.robot.urdf import UrdfJoint, chain, read_urdf

SCHEMA = "rlinf_ros/robot/v1"


def read_robot(path: Path) -> RobotDescription:
    """robot.yaml at `path` and the URDF it names. Raises ConfigError with the dotted path."""
    text = read_text(path)
    with Fields(parse_yaml(text, str(path)), str(path)) as f:
        f.choice("schema", (SCHEMA,))
        name = f.string("name")
        description = f.string("description")
        urdf_path = path.parent / f.string("urdf")
        joints = tuple(_joint(child) for child in f.children("joints"))
        names = tuple(joint.name for joint in joints)
        if not names or len(set(names)) != len(names):
            f.fail("joints", f"expected distinct joints, got {list(names)}")
        with f.child("frames") as c:
            frames = Frames(c.string("base"), c.string("tool"), c.string("controller_base"))
        home = _by_joint(f.child("home_rad"), names, joints)
        with f.child("payload") as c:
            payload = Payload(c.number("mass_kg", low=0.0), _triple(c, "center_m"))
        drivers = f.child("drivers")
        profiles = {key: _driver(drivers.child(key), key, names) for key in f.get("drivers")}
        with f.child("safety") as c:
            safety = Safety(
                max_command_step_rad=c.number("max_command_step_rad", positive=True),
                workspace_lower_m=_triple(c, "workspace_lower_m"),
                workspace_upper_m=_triple(c, "workspace_upper_m"),
            )
            for low, high in zip(safety.workspace_lower_m, safety.workspace_upper_m, strict=True):
                if low >= high:
                    c.fail("workspace_lower_m", f"{low} is not below {high}", fix="swap the two")
        simulation = _simulation(f.child("simulation"), names)
        visual = _visual(f.child("visual")) if f.has("visual") else None
    urdf_joints = read_urdf(urdf_path)
    _check_urdf(joints, frames, urdf_joints, str(path), str(urdf_path))
    return RobotDescription(
        name=name,
        description=description,
        joints=joints,
        home_rad=home,
        frames=frames,
        payload=payload,
        drivers=profiles,
        safety=safety,
        simulation=simulation,
        visual=visual,
        path=path,
        urdf_path=urdf_path,
        fingerprint=hashlib.sha256(text.encode() + b"\0" + urdf_path.read_bytes()).hexdigest(),
        urdf_joints=urdf_joints,
    )


def _joint(f: Fields) -> Joint:
    with f:
        name = f.string("name")
        lower, upper = f.numbers("position_rad", length=2)
        if lower >= upper:
            f.fail("position_rad", f"{lower} is not below {upper}", fix="write [lower, upper]")
        return Joint(
            name=name,
            lower_rad=lower,
            upper_rad=upper,
            velocity_rad_s=f.number("velocity_rad_s", positive=True),
            acceleration_rad_s2=f.number("acceleration_rad_s2", positive=True),
            effort_nm=f.number("effort_nm", positive=True),
        )


def _by_joint(f: Fields, names: tuple[str, ...], joints: tuple[Joint, ...]) -> tuple[float, ...]:
    with f:
        return tuple(
            f.number(name, low=joint.lower_rad, high=joint.upper_rad)
            for name, joint in zip(names, joints, strict=True)
        )


def _driver(f: Fields, name: str, names: tuple[str, ...]) -> Driver:
    with f:
        order = f.strings("joint_state_order")
        if sorted(order) != sorted(names):
            f.fail("joint_state_order", f"not the robot's joints: {list(order)}", allowed=names)
        with f.child("controllers") as c:
            controllers = {key: c.string(key) for key in ("position", "velocity", "trajectory")}
        return Driver(
            name=name,
            joint_states_topic=f.string("joint_states_topic"),
            joint_state_order=order,
            update_rate_hz=f.number("update_rate_hz", positive=True),
            receive_timeout_s=f.number("receive_timeout_s", positive=True),
            controllers=controllers,
        )


def _simulation(f: Fields, names: tuple[str, ...]) -> Simulation:
    with f:
        servos = f.child("servos")
        with servos:
            by_name = [_servo(servos.child(name)) for name in names]
        with f.child("table") as c:
            table = Table(_triple(c, "top_center_m"), _triple(c, "size_m", positive=True))
        return Simulation(f.number("sim_dt_s", positive=True), tuple(by_name), table)


def _servo(f: Fields) -> JointServo:
    with f:
        return JointServo(
            kp=f.number("kp", positive=True),
            kd=f.number("kd", low=0.0),
            damping=f.number("damping", low=0.0),
            armature=f.number("armature", low=0.0),
        )


def _visual(f: Fields) -> Visual:
    with f:
        return Visual(f.string("package"), f.string("model"), f.string("license"))


def _triple(f: Fields, key: str, positive: bool = False) -> tuple[float, float, float]:
    x, y, z = f.numbers(key, length=3, positive=positive)
    return x, y, z


def _check_urdf(
    joints: tuple[Joint, ...],
    frames: Frames,
    urdf: Mapping[str, UrdfJoint],
    where: str,
    urdf_where: str,
) -> None:
    """Joint names, position and velocity limits, and frames must be the URDF's."""
    _, path = chain(urdf, frames.base, frames.tool, where=f"{where}.frames")
    chain(urdf, frames.controller_base, frames.tool, where=f"{where}.frames.controller_base")
    moving = [joint.name for joint in path if joint.movable]
    if sorted(moving) != sorted(joint.name for joint in joints):
        raise ConfigError(
            f"joints {[joint.name for joint in joints]} are not those of the URDF's chain "
            f"{frames.base} → {frames.tool}",
            where=f"{where}.joints",
            allowed=moving,
            fix=f"list the chain's moving joints of {urdf_where}, in the controller's order",
        )
    for i, joint in enumerate(joints):
        other = urdf[joint.name]
        pairs: list[tuple[str, Any, Any]] = [
            ("position_rad[0]", joint.lower_rad, other.lower),
            ("position_rad[1]", joint.upper_rad, other.upper),
            ("velocity_rad_s", joint.velocity_rad_s, other.velocity),
        ]
        for key, ours, theirs in pairs:
            if theirs is None or abs(ours - theirs) > 1e-9:
                raise ConfigError(
                    f"{ours!r} differs from the URDF's {theirs!r} for '{joint.name}'",
                    where=f"{where}.joints[{i}].{key}",
                    fix=f"make {urdf_where} and robot.yaml agree",
                )
