"""Whether a contract fits a robot: its name, joints, frames and limits. Checked once, at load."""

from __future__ import annotations

from ..contract.errors import ConfigError, nearest
from ..contract.model import Contract
from ..contract.tool_action import TOOL_ELEMENTS
from ..robot.description import RobotDescription


def check_fits(contract: Contract, robot: RobotDescription) -> None:
    """Raise ConfigError where the contract asks for what the robot does not have."""
    where = f"contract '{contract.name}'"
    if contract.robot != robot.name:
        raise ConfigError(
            f"made for robot '{contract.robot}', this robot is '{robot.name}'",
            where=f"{where}.robot",
            fix=f"use the bundle with '{contract.robot}', or train one for '{robot.name}'",
        )
    terms = [
        (f"observation.terms[{i}]", t.joints) for i, t in enumerate(contract.observation.terms)
    ]
    terms += [(f"action.terms[{i}]", t.joints) for i, t in enumerate(contract.action.terms)]
    for path, joints in terms:
        for joint in joints:
            _known(joint, robot.joint_names, f"{where}.{path}.joints", "joint")
    if missing := [j for j in robot.joint_names if j not in contract.action.joints]:
        raise ConfigError(
            f"no action term drives joint '{missing[0]}'",
            where=f"{where}.action.terms",
            fix="a controller takes a value for each joint: add it to a term",
        )
    base, tool = robot.frames.base, robot.frames.tool
    _known(contract.observation.tool, [tool], f"{where}.observation.tool_link", "tool link")
    for i, term in enumerate(contract.observation.terms):
        if term.frame:
            frames = [base, robot.frames.controller_base]
            if term.kind.endswith("_error"):
                frames.append(tool)
            _known(term.frame, frames, f"{where}.observation.terms[{i}].frame", "frame")
    for i, action in enumerate(contract.action.terms):
        path = f"{where}.action.terms[{i}]"
        if action.tool is not None:
            _known(action.tool.reference_point, [tool], f"{path}.reference_point", "tool link")
            frames = [base, robot.frames.controller_base, tool]
            _known(action.tool.frame, frames, f"{path}.frame", "frame")
            if len(action.joints) < len(TOOL_ELEMENTS):
                raise ConfigError(
                    f"{len(action.joints)} joints can't follow the six numbers of a tool action",
                    where=f"{path}.type",
                    fix="use a joint action for this arm",
                )
    grippers = [
        (f"observation.terms[{i}]", t.gripper) for i, t in enumerate(contract.observation.terms)
    ]
    grippers += [(f"action.terms[{i}]", t.gripper) for i, t in enumerate(contract.action.terms)]
    for path, gripper in grippers:
        if gripper is not None and gripper.joint in robot.joint_names:
            raise ConfigError(
                f"'{gripper.joint}' is a joint of the arm, not of the gripper",
                where=f"{where}.{path}.joint",
            )
    for joint, limit in zip(
        contract.action.joints, contract.action.limits.velocity_rad_s, strict=True
    ):
        bound = float(robot.velocity[robot.joint_names.index(joint)])
        if limit > bound + 1e-9:
            raise ConfigError(
                f"{limit} rad/s for '{joint}' is above the robot's limit",
                where=f"{where}.action.limits.velocity_rad_s",
                allowed=f"≤ {bound}",
            )


def _known(name: str, known: tuple[str, ...] | list[str], where: str, what: str) -> None:
    if name not in known:
        raise ConfigError(
            f"{what} '{name}' is not known to the robot",
            where=where,
            allowed=known,
            fix=nearest(name, known),
        )
