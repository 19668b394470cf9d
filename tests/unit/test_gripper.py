"""The gripper: a declared map there and back, beside the arm's terms, and what a contract must say."""

import numpy as np
import pytest
import yaml

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.load import parse_contract
from rlinf_ros.contract.tool_action import GripperMap
from rlinf_ros.pipeline.action import ActionPipeline
from rlinf_ros.pipeline.gripper import to_joint, to_policy
from rlinf_ros.pipeline.observation import ObservationPipeline
from rlinf_ros.robot.description import load_robot

from .test_contract import JOINTS, document
from .test_tool_action import TERM

UR5E = load_robot("ur5e")
KNUCKLE = "robotiq_85_left_knuckle_joint"
GRIPPER = {
    "joint": KNUCKLE,
    "unit": "1",
    "policy": {"open": 1.0, "closed": 0.0},
    "joint_rad": {"open": 0.0, "closed": 0.7929},
}
ACTION = {"name": "gripper", "type": "gripper", **GRIPPER}
OBSERVATION = {"name": "gripper", "kind": "gripper_position", **GRIPPER}


def contract(action=None, observation=()):
    doc = document()
    doc["observation"]["terms"] += [*observation, {"name": "a", "kind": "last_action", "unit": "1"}]
    doc["action"]["terms"] = [*doc["action"]["terms"], ACTION] if action is None else action
    return parse_contract(yaml.safe_dump(doc))


def test_case_11_the_declared_map_clips_and_goes_there_and_back():
    g = GripperMap(KNUCKLE, policy_open=1.0, policy_closed=0.0, open_rad=0.0, closed_rad=0.7929)
    asked = np.array([1.0, 0.0, 0.5, 1.7, -0.2])
    angle = to_joint(g, asked)
    np.testing.assert_allclose(angle, [0.0, 0.7929, 0.39645, 0.0, 0.7929], atol=1e-15)
    assert angle[0] == 0.0 and angle[1] == 0.7929  # both ends to the last bit
    np.testing.assert_allclose(to_policy(g, angle), [1.0, 0.0, 0.5, 1.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(to_policy(g, np.array([-0.01, 0.8])), [1.0, 0.0], atol=1e-15)
    other = GripperMap(KNUCKLE, policy_open=-1.0, policy_closed=1.0, open_rad=0.7, closed_rad=0.1)
    np.testing.assert_allclose(to_joint(other, np.array([-1.0, 0.0, 1.0])), [0.7, 0.4, 0.1])


@pytest.mark.parametrize("first", [True, False], ids=["before the arm", "after the arm"])
@pytest.mark.parametrize("arm", [document()["action"]["terms"][0], TERM], ids=["joints", "tool"])
def test_case_11_the_gripper_has_its_own_column(first, arm):
    act = ActionPipeline(contract([ACTION, arm] if first else [arm, ACTION]), UR5E)
    assert act.size == 7 and act.spec.elements[0 if first else 6] == KNUCKLE
    assert len(act.spec.joints) == 6
    moves, opening = 0.1 * np.arange(1.0, 7.0), np.array([0.25])
    action = np.concatenate([opening, moves] if first else [moves, opening])
    s = {"joint_position": UR5E.home, "last_command": UR5E.home, "last_gripper": np.array([0.5])}
    alone = ActionPipeline(contract([arm]), UR5E)
    command = act.command(action, s)
    np.testing.assert_array_equal(command, alone.command(moves, s))
    angle = act.gripper_command(action)
    np.testing.assert_allclose(angle, [0.7929 * 0.75])
    np.testing.assert_allclose(act.encode(command, s, angle), action, atol=1e-5)
    held = act.encode(command, s)[0 if first else 6]  # nothing new was sent to the gripper
    assert held == pytest.approx(1.0 - 0.5 / 0.7929)
    assert "open 1 = 0 rad, closed 0 = 0.7929 rad" in act.table()


def test_the_observation_shows_the_measured_opening_in_the_policys_number():
    pipeline = ObservationPipeline(contract(observation=[OBSERVATION]), UR5E)
    s = {
        "joint_position": UR5E.home[None],
        "gripper_position": np.array([[0.7929 / 4]]),
        "last_action": np.zeros((1, 7)),
    }
    observation = pipeline.observe(pipeline.context(s))
    column = pipeline.element_names().index(f"gripper[{KNUCKLE}]")
    assert observation[0, column] == pytest.approx(0.75, abs=1e-7)
    assert observation.shape == (1, 10 + 1 + 7)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ([{**ACTION, "policy": {"open": 1.0}}], "policy.closed: missing"),
        ([{**ACTION, "policy": {"open": 1.0, "closed": 1.0}}], "open and closed are both 1"),
        ([{**ACTION, "policy": {"open": 85.0, "closed": 0.0}}], "beyond action.clip 1"),
        ([{**ACTION, "unit": "rad"}], "allowed: 1"),
        ([{**ACTION, "scale": 2.0}], "unknown key 'scale'"),
        ([ACTION], "no terms for the arm"),
        ([ACTION, {**ACTION, "name": "second"}], "a second gripper"),
    ],
)
def test_what_a_gripper_term_must_say(terms, says):
    with pytest.raises(ConfigError) as caught:
        contract(terms)
    assert says in str(caught.value)


def test_a_joint_of_the_arm_is_no_gripper():
    action = [*document()["action"]["terms"], {**ACTION, "joint": JOINTS[5]}]
    with pytest.raises(ConfigError, match="is a joint of the arm"):
        ActionPipeline(contract(action), UR5E)
