"""Read and validate a contract document once; everything that can be wrong is an error here.

Whether it fits a robot (joint names, frames, limits) is checked where the robot is known, by
`rlinf_ros.pipeline.fit.check_fits`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from .fields import Fields, parse_yaml, read_text
from .model import (
    ACTION_UNITS,
    HOLDS,
    JOINT_KINDS,
    ORIENTATION_KINDS,
    ORIENTATION_SIZES,
    POINT_KINDS,
    TERM_KINDS,
    ActionLimits,
    ActionSpec,
    ActionTerm,
    Contract,
    ObservationSpec,
    ObservationTerm,
)
from .tool_action import (
    TOOL_ELEMENTS,
    TOOL_UNITS,
    GripperMap,
    Interface,
    read_gripper,
    read_tool_motion,
)

SCHEMA = "rlinf_ros/contract/v1"


def load_contract(path: str | Path) -> Contract:
    """Load a contract file. Raises ConfigError naming the dotted path of the first fault."""
    return parse_contract(read_text(path), str(path))


def parse_contract(text: str, where: str = "contract") -> Contract:
    """Validate contract text; `where` names it in errors."""
    with Fields(parse_yaml(text, where), where) as doc:
        doc.choice("schema", [SCHEMA])
        action = _action(doc.child("action"))
        with doc.child("rate") as rate:
            control_dt_s = rate.number("control_dt_s", low=0.001, high=1.0)
            max_age_s = rate.number("max_observation_age_s", positive=True)
            delay_s = rate.number("command_delay_s", low=0.0)
        return Contract(
            name=doc.string("name"),
            description=doc.string("description"),
            robot=doc.string("robot"),
            control_dt_s=control_dt_s,
            observation=_observation(doc.child("observation"), action.terms, max_age_s),
            action=ActionSpec(*action, delay_s=delay_s),
            text=text,
            sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        )


def _observation(doc: Fields, actions: tuple[ActionTerm, ...], max_age_s: float) -> ObservationSpec:
    with doc:
        doc.choice("dtype", ["float32"])
        tool = doc.string("tool_link")
        terms: list[ObservationTerm] = []
        for entry in doc.children("terms"):
            term = _term(entry, sum(len(a.elements) for a in actions))
            if term.name in [t.name for t in terms]:
                entry.fail(
                    "name", f"'{term.name}' appears twice", fix="give each term its own name"
                )
            terms.append(term)
        if not terms:
            doc.fail("terms", "the observation has no terms", allowed=TERM_KINDS)
        return ObservationSpec(tuple(terms), tool, max_age_s)


def _term(doc: Fields, action_size: int) -> ObservationTerm:
    with doc:
        name = doc.string("name")
        kind = doc.choice("kind", TERM_KINDS)
        joints: tuple[str, ...] = ()
        frame = orientation = ""
        gripper: GripperMap | None = None
        if kind in JOINT_KINDS:
            joints = doc.strings("joints")
            size, unit = len(joints), JOINT_KINDS[kind]
        elif kind in POINT_KINDS:
            frame, size, unit = doc.string("frame"), 3, POINT_KINDS[kind]
        elif kind in ORIENTATION_KINDS:
            frame = doc.string("frame")
            orientation = doc.choice("orientation", list(ORIENTATION_SIZES))
            size, unit = ORIENTATION_SIZES[orientation], "1"
        elif kind == "gripper_position":
            gripper, size, unit = read_gripper(doc), 1, "1"
        else:
            size, unit = action_size, "1"
        doc.choice("unit", [unit])
        clip = doc.numbers("clip", None, length=2)
        if clip is not None and clip[0] >= clip[1]:
            doc.fail("clip", f"lower bound {clip[0]} is not below upper bound {clip[1]}")
        scale = doc.numbers("scale", (1.0,) * size, length=size, broadcast=True)
        if 0.0 in scale:
            doc.fail("scale", "a scale of 0 erases the value", fix="remove the term instead")
        return ObservationTerm(
            name=name,
            kind=kind,
            unit=unit,
            size=size,
            joints=joints,
            frame=frame,
            orientation=orientation,
            offset=doc.numbers("offset", (0.0,) * size, length=size, broadcast=True),
            scale=scale,
            clip=None if clip is None else (clip[0], clip[1]),
            history=doc.integer("history", 1, low=1),
            gripper=gripper,
        )


class _Action(NamedTuple):
    terms: tuple[ActionTerm, ...]
    clip: float
    hold: str
    limits: ActionLimits
    command_interface: Interface


def _action(doc: Fields) -> _Action:
    with doc:
        clip = doc.number("clip", positive=True)
        terms: list[ActionTerm] = []
        interfaces: list[Interface] = []
        for entry in doc.children("terms"):
            term = _action_term(entry, clip)
            _check_beside(entry, term, terms)
            terms.append(term)
            if term.gripper is not None:
                continue  # it has a controller of its own
            interfaces.append(_interface(term))
            if interfaces[-1] != interfaces[0]:
                entry.fail(
                    "type",
                    f"'{term.type}' drives the {interfaces[-1]} interface, the first term the "
                    f"{interfaces[0]} interface",
                    fix="a controller takes one interface: use one kind for all terms",
                )
        if not interfaces:
            doc.fail("terms", "the action has no terms for the arm", allowed=list(ACTION_UNITS))
        interface = interfaces[0]
        hold = doc.choice("hold", list(HOLDS.values()))
        if hold != HOLDS[interface]:
            doc.fail(
                "hold",
                f"'{hold}' on a {interface} interface would move the arm",
                allowed=[HOLDS[interface]],
            )
        joint_count = sum(len(term.joints) for term in terms)
        with doc.child("limits") as limits:
            bounds = ActionLimits(
                velocity_rad_s=limits.numbers(
                    "velocity_rad_s", length=joint_count, broadcast=True, positive=True
                ),
                tracking_error_rad=limits.number("tracking_error_rad", positive=True),
                position_margin_rad=limits.number("position_margin_rad", low=0.0),
            )
        return _Action(tuple(terms), clip, hold, bounds, interface)


def _interface(term: ActionTerm) -> Interface:
    if term.tool is not None:
        return term.tool.interface
    return "velocity" if term.type == "joint_velocity" else "position"


def _check_beside(entry: Fields, term: ActionTerm, before: list[ActionTerm]) -> None:
    """Fail at `entry` if `term` drives what a term before it drives already."""
    for joint in term.joints:
        if any(joint in other.joints for other in before):
            entry.fail("joints", f"'{joint}' is already driven by another action term")
    if term.gripper is not None:
        if any(other.gripper is not None for other in before):
            entry.fail("type", "a second gripper", fix="one gripper per arm is supported")
    elif any(other.gripper is None and (term.tool or other.tool) for other in before):
        entry.fail(
            "type",
            "a tool action moves all joints of the arm",
            fix="let it be the only term beside a gripper",
        )


def _action_term(doc: Fields, clip: float) -> ActionTerm:
    with doc:
        name = doc.string("name")
        type_ = doc.choice("type", list(ACTION_UNITS))
        unit = doc.choice("unit", [ACTION_UNITS[type_]])
        if type_ == "gripper":
            gripper = read_gripper(doc)
            if max(abs(gripper.policy_open), abs(gripper.policy_closed)) > clip:
                doc.fail("policy", f"an end of it is beyond action.clip {clip:g}: never reached")
            return ActionTerm(name, type_, unit, (), (1.0,), (0.0,), gripper=gripper)
        joints = doc.strings("joints")
        if type_ in TOOL_UNITS:
            tool, size = read_tool_motion(doc, type_), len(TOOL_ELEMENTS)
            scale = doc.numbers("scale", length=size)  # metres and radians: no one number for all
            if 0.0 in scale:
                doc.fail("scale", "a scale of 0 makes the action inert")
            return ActionTerm(name, type_, unit, joints, scale, (0.0,) * size, tool=tool)
        if type_ == "joint_offset_from_default":
            offset = doc.numbers("default_rad", length=len(joints))
        elif type_ == "joint_position":
            offset = doc.numbers("offset", length=len(joints), broadcast=True)
        else:
            offset = (0.0,) * len(joints)
        scale = doc.numbers("scale", length=len(joints), broadcast=True)
        if 0.0 in scale:
            doc.fail("scale", "a scale of 0 makes the action inert", fix="remove the joint instead")
        return ActionTerm(name, type_, unit, joints, scale, offset)
