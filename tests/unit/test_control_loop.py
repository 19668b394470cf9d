"""ControlLoop: observation, action and last_action as in simulation; silence on bad input."""

from pathlib import Path

import numpy as np
import pytest

from rlinf_ros.contract.load import load_contract, parse_contract
from rlinf_ros.pipeline.action import ActionPipeline
from rlinf_ros.pipeline.observation import ObservationPipeline
from rlinf_ros.robot.description import load_robot
from rlinf_ros.runtime.control_loop import ControlLoop
from rlinf_ros.runtime.goal import Goal
from rlinf_ros.runtime.robot_io import ArmSample
from rlinf_ros.safety.reason import Code

ROBOT = load_robot("ur5e")
CONTRACT = load_contract(ROBOT.path.parent / "contracts" / "reach.yaml")
GOAL = Goal(np.array([0.45, 0.2, 0.4]), np.array([1.0, 0.0, 0.0, 0.0]))


class LinearPolicy:
    """Deterministic, and depends on every element of the observation."""

    def __init__(self, contract=CONTRACT):
        rng = np.random.default_rng(3)
        size = (contract.observation.size, contract.action.size)
        self.weight = (0.2 * rng.standard_normal(size)).astype(np.float32)
        self.calls = 0

    def __call__(self, observation):
        self.calls += 1
        return np.tanh(observation @ self.weight)


def sample(q=None, stamp=10.0, velocity=0.0):
    q = ROBOT.home if q is None else np.asarray(q, dtype=float)
    return ArmSample(stamp, q, np.full(6, velocity))


@pytest.fixture
def loop():
    return ControlLoop(CONTRACT, ROBOT, LinearPolicy())


def changed(**replacements):
    text = CONTRACT.text
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    return parse_contract(text)


ACTION_TYPES = [
    ("joint_delta_from_last_command", ""),
    ("joint_delta_from_measured", ""),
    ("joint_position", "      offset: 0.0\n"),
    ("joint_offset_from_default", "      default_rad: [0.0, -1.5, 1.5, -1.5, -1.5, 0.0]\n"),
]


@pytest.mark.parametrize(("action_type", "more"), ACTION_TYPES)
def test_an_episode_gives_the_observations_and_actions_of_the_simulator(action_type, more):
    text = CONTRACT.text.replace(
        "type: joint_delta_from_last_command\n", f"type: {action_type}\n{more}"
    )
    contract = parse_contract(text)
    loop = ControlLoop(contract, ROBOT, LinearPolicy(contract))
    policy, observe = LinearPolicy(contract), ObservationPipeline(contract, ROBOT)
    act = ActionPipeline(contract, ROBOT)
    q, v, sent = ROBOT.home[None].copy(), np.zeros((1, 6)), None
    # As the simulator does it, in a batch of one: rest, then the state from before each command.
    last = act.rest_command(q)
    last_action = act.encode(last, {"joint_position": q, "last_command": last})
    for step in range(50):
        before = {
            "joint_position": q,
            "joint_velocity": v,
            "last_command": last,
            "last_action": last_action,
            "goal_position": GOAL.position[None],
            "goal_quat_xyzw": GOAL.quat_xyzw[None],
        }
        expected = observe.observe(observe.context(before))
        result = loop.tick(ArmSample(0.02 * step, q[0], v[0]), 0.02 * step + 0.001, sent, GOAL)
        np.testing.assert_allclose(result.frame.observation, expected[0], atol=1e-6)
        command = act.command(policy(expected), before)
        np.testing.assert_allclose(result.frame.targets, command[0], atol=1e-6)
        if step == 20:  # the guard lets less through than was asked for
            command = last + 0.3 * (command - last)
        last, last_action = command, act.encode(command, before)
        sent = command[0]
        v = 0.8 * (command - q) / 0.02
        q = q + 0.8 * (command - q)
    assert np.max(np.abs(q - ROBOT.home)) > 0.05  # it moved


def test_case_26_an_old_joint_state_does_not_reach_the_policy(loop):
    assert loop.tick(sample(stamp=10.0), 10.04, None, GOAL).frame is not None
    result = loop.tick(sample(stamp=10.0), 10.041, None, GOAL)
    assert result.frame is None and result.reason.code is Code.STALE_INPUT
    assert result.reason.value == pytest.approx(0.041) and result.reason.limit == 0.04
    assert loop._policy.calls == 1


def test_no_joint_state_yet(loop):
    result = loop.tick(None, 10.0, None, GOAL)
    assert result.reason.code is Code.STALE_INPUT and loop._policy.calls == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_case_22_an_observation_that_is_no_number_does_not_reach_the_policy(loop, bad):
    q = ROBOT.home.copy()
    q[2] = bad
    result = loop.tick(sample(q), 10.0, None, GOAL)
    assert (result.reason.code, result.reason.joint) == (Code.NON_FINITE, "elbow_joint")
    result = loop.tick(sample(velocity=bad), 10.0, None, GOAL)
    assert result.reason.code is Code.NON_FINITE
    result = loop.tick(sample(), 10.0, q, GOAL)
    assert result.reason.code is Code.NON_FINITE
    result = loop.tick(sample(), 10.0, None, Goal(np.array([bad, 0, 0]), GOAL.quat_xyzw))
    assert result.reason.code is Code.NON_FINITE
    assert loop._policy.calls == 0


def test_a_missing_velocity_is_never_taken_for_zero(loop):
    without = ArmSample(10.0, ROBOT.home, None)
    result = loop.tick(without, 10.0, None, GOAL)
    assert result.reason.code is Code.INCOMPLETE_INPUT and loop._policy.calls == 0
    lines = CONTRACT.text.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if "name: joint_velocity" in line)
    end = next(i for i in range(start + 1, len(lines)) if "- name:" in lines[i])
    contract = parse_contract("".join(lines[:start] + lines[end:]))
    free = ControlLoop(contract, ROBOT, LinearPolicy(contract))
    assert not free.needs_velocity
    assert free.tick(without, 10.0, None, GOAL).frame is not None


def test_case_22_an_action_that_is_no_number_is_dropped():
    loop = ControlLoop(CONTRACT, ROBOT, lambda o: np.full((1, 6), np.nan, dtype=np.float32))
    result = loop.tick(sample(), 10.0, None, GOAL)
    assert result.frame is None
    assert (result.reason.code, result.reason.joint) == (Code.NON_FINITE, "shoulder_pan_joint")


def test_huge_actions_stay_within_the_contract():
    loop = ControlLoop(CONTRACT, ROBOT, lambda o: np.full((1, 6), 1e30, dtype=np.float32))
    frame = loop.tick(sample(), 10.0, None, GOAL).frame
    assert np.max(np.abs(frame.targets - ROBOT.home)) <= 0.05 + 1e-9


def test_reset_forgets_the_history_and_the_previous_state():
    contract = changed(
        **{"    - name: joint_velocity\n": "    - name: joint_velocity\n      history: 3\n"}
    )
    loop = ControlLoop(contract, ROBOT, LinearPolicy(contract))
    first = loop.tick(sample(), 10.0, None, GOAL).frame.observation
    loop.tick(sample(velocity=0.5), 10.0, ROBOT.home + 0.02, GOAL)
    assert not np.allclose(loop.tick(sample(), 10.0, None, GOAL).frame.observation, first)
    loop.reset()
    np.testing.assert_array_equal(loop.tick(sample(), 10.0, None, GOAL).frame.observation, first)


def test_errors_of_the_tool(loop):
    position, _ = loop.observations.kinematics.forward_pose(ROBOT.home)
    goal = Goal(
        position + np.array([0.0, 0.03, 0.04]),
        loop.observations.kinematics.forward_pose(ROBOT.home)[1],
    )
    result = loop.tick(sample(), 10.0, None, goal)
    assert result.position_error_m == pytest.approx(0.05)
    assert result.orientation_error_rad == pytest.approx(0.0, abs=1e-6)
    assert loop.errors(sample(), goal)[0] == pytest.approx(0.05)


def test_the_room_knows_nothing_of_ros():
    for path in (Path(__file__).parents[2] / "rlinf_ros" / "runtime").glob("*.py"):
        assert "rclpy" not in path.read_text()
