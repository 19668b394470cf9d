"""Loading a contract: what is right is read exactly, what is wrong is named with its path."""

import copy

import pytest
import yaml

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.load import load_contract, parse_contract
from rlinf_ros.robot.description import load_robot

JOINTS = [
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
]


def document() -> dict:
    return copy.deepcopy(
        {
            "schema": "rlinf_ros/contract/v1",
            "name": "test",
            "description": "a test",
            "robot": "ur5e",
            "rate": {
                "control_dt_s": 0.02,
                "max_observation_age_s": 0.04,
                "command_delay_s": 0.0,
            },
            "observation": {
                "dtype": "float32",
                "tool_link": "tool0",
                "terms": [
                    {"name": "q", "kind": "joint_position", "joints": JOINTS, "unit": "rad"},
                    {
                        "name": "tool",
                        "kind": "tcp_orientation",
                        "orientation": "quat_xyzw",
                        "frame": "base_link",
                        "unit": "1",
                    },
                ],
            },
            "action": {
                "clip": 1.0,
                "hold": "hold_last_position",
                "limits": {
                    "velocity_rad_s": 2.0,
                    "tracking_error_rad": 0.2,
                    "position_margin_rad": 0.0,
                },
                "terms": [
                    {
                        "name": "arm",
                        "type": "joint_delta_from_measured",
                        "joints": JOINTS,
                        "unit": "rad",
                        "scale": 0.04387,
                    }
                ],
            },
        }
    )


def edit(path: str, value: object) -> str:
    """The document as YAML with one dotted path set (value None: removed)."""
    doc = document()
    node = doc
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for key in parents:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return yaml.safe_dump(doc)


def test_a_good_contract_is_read_exactly():
    text = yaml.safe_dump(document())
    contract = parse_contract(text)
    assert contract.observation.size == 10 and contract.action.size == 6
    assert contract.action.command_interface == "position"
    assert contract.text == text


def test_case_42_scale_keeps_full_precision():
    contract = parse_contract(edit("action.terms.0.scale", 0.04387))
    assert contract.action.terms[0].scale == (0.04387,) * 6


@pytest.mark.parametrize(
    ("path", "value", "where", "says"),
    [
        ("extra", 1, "c.extra", "unknown key"),
        ("observation.terms.0.scle", 2.0, "terms[0].scle", "did you mean 'scale'?"),
        ("observation.terms.0.unit", "deg", "terms[0].unit", "allowed: rad"),
        ("observation.terms.0.unit", None, "terms[0].unit", "missing"),
        ("observation.terms.0.kind", "base_lin_vel", "terms[0].kind", "not known"),
        ("observation.terms.1.orientation", None, "terms[1].orientation", "missing"),
        ("observation.terms.1.orientation", "quat", "terms[1].orientation", "quat_wxyz"),
        ("observation.terms.1.name", "q", "terms[1].name", "appears twice"),
        ("observation.terms.0.scale", [1.0, 2.0], "terms[0].scale", "expected 6 numbers"),
        ("observation.terms.0.scale", 0.0, "terms[0].scale", "erases"),
        ("observation.terms.0.clip", [1.0, -1.0], "terms[0].clip", "not below"),
        ("observation.terms.0.offset", float("nan"), "terms[0].offset[0]", "finite"),
        ("observation.terms.0.history", 0, "terms[0].history", "whole number"),
        ("observation.terms.0.joints", [*JOINTS[:5], JOINTS[0]], "joints[5]", "appears twice"),
        ("observation.terms", [], "observation.terms", "no terms"),
        ("action.terms.0.type", None, "terms[0].type", "missing"),
        ("action.terms.0.type", "delta", "terms[0].type", "joint_delta_from_measured"),
        ("action.terms.0.unit", "rad/s", "terms[0].unit", "allowed: rad"),
        ("action.hold", None, "action.hold", "missing"),
        ("rate.control_dt_s", 50, "rate.control_dt_s", "out of range"),
        ("rate.control_dt_s", "50 Hz", "rate.control_dt_s", "expected a number"),
        ("schema", "v2", "c.schema", "rlinf_ros/contract/v1"),
    ],
)
def test_a_bad_contract_names_the_place(path, value, where, says):
    with pytest.raises(ConfigError) as caught:
        parse_contract(edit(path, value), "c")
    assert where in str(caught.value) and says in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "unit", "hold"),
    [
        ("joint_delta_from_measured", "rad", "ramp_to_zero"),
        ("joint_velocity", "rad/s", "hold_last_position"),
    ],
)
def test_case_18_hold_that_moves_the_arm_is_a_load_error(type_, unit, hold):
    doc = document()
    doc["action"]["terms"][0] |= {"type": type_, "unit": unit}
    doc["action"]["hold"] = hold
    with pytest.raises(ConfigError, match="would move the arm"):
        parse_contract(yaml.safe_dump(doc))


def test_case_07_orientation_without_order_is_a_load_error():
    with pytest.raises(ConfigError, match="orientation: missing"):
        parse_contract(edit("observation.terms.1.orientation", None))


def test_case_43_a_term_without_a_source_is_a_load_error():
    text = edit("observation.terms.0.kind", "base_lin_vel")
    with pytest.raises(ConfigError, match="'base_lin_vel' is not known"):
        parse_contract(text)


def test_case_45_action_types_are_distinct_and_have_no_default():
    for type_ in ("joint_delta_from_measured", "joint_delta_from_last_command"):
        assert parse_contract(edit("action.terms.0.type", type_)).action.terms[0].type == type_
    text = edit("action.terms.0.type", "joint_offset_from_default")
    with pytest.raises(ConfigError, match="default_rad: missing"):
        parse_contract(text)


def test_mixing_command_interfaces_is_a_load_error():
    doc = document()
    arm = doc["action"]["terms"][0]
    wrist = {**arm, "name": "w", "joints": JOINTS[3:], "type": "joint_velocity", "unit": "rad/s"}
    doc["action"]["terms"] = [{**arm, "joints": JOINTS[:3]}, wrist]
    with pytest.raises(ConfigError, match="one kind for all terms"):
        parse_contract(yaml.safe_dump(doc))


def test_a_doubled_key_is_an_error_and_not_the_last_one():
    with pytest.raises(ConfigError, match="'name' appears twice"):
        parse_contract(yaml.safe_dump(document()) + "\nname: other\n")


def test_yaml_tags_that_run_code_are_refused():
    with pytest.raises(ConfigError, match="not valid YAML"):
        parse_contract("!!python/object/apply:os.system ['true']")


def test_a_missing_file_lists_what_is_there(tmp_path):
    (tmp_path / "reach.yaml").write_text("x")
    with pytest.raises(ConfigError, match=r"no such file[\s\S]*reach.yaml"):
        load_contract(tmp_path / "rech.yaml")


@pytest.mark.parametrize(
    ("robot", "name"),
    [
        ("ur5e", "reach"),
        ("ur5e", "reach_position"),
        ("ur5e", "reach_twist"),
        ("ur5", "reach"),
        ("ur5", "reach_position"),
    ],
)
def test_the_shipped_contracts_fit_their_robots(robot, name):
    from rlinf_ros.pipeline.fit import check_fits

    description = load_robot(robot)
    contract = load_contract(description.path.parent / "contracts" / f"{name}.yaml")
    check_fits(contract, description)
    assert contract.robot == robot
