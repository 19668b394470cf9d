"""Messages and the pure rooms: the same numbers on both sides, joints by name, nothing guessed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 (rclpy) is not installed")
pytest.importorskip("rlinf_ros_msgs", reason="messages are not built: make ros-build")

from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState

from rlinf_ros.robot.description import load_robot
from rlinf_ros.ros import convert
from rlinf_ros.ros.messages import GuardStatus
from rlinf_ros.ros.messages import Reason as ReasonMessage
from rlinf_ros.safety.governor import State
from rlinf_ros.safety.reason import NO_REASON, Code, Reason

NAMES = load_robot("ur5e").joint_names
Q = np.arange(1.0, 7.0)


def message(order=range(6), moving=True, names=NAMES, **changes):
    values = {
        "name": [names[i] for i in order],
        "position": [float(Q[i]) for i in order],
        "velocity": [float(Q[i] / 10) for i in order] if moving else [],
    }
    return JointState(header=JointState().header, **(values | changes))


def reader(prefix="", needs_velocity=True):
    return convert.JointStates(NAMES, prefix, "joint_states", needs_velocity=needs_velocity)


def test_codes_and_states_are_those_of_the_messages():
    def numbers(message_type):
        values = {n: getattr(message_type, n) for n in dir(message_type) if n.isupper()}
        return {n: v for n, v in values.items() if isinstance(v, int)}

    assert {code.name: int(code) for code in Code} == numbers(ReasonMessage)
    assert {state.name: int(state) for state in State} == numbers(GuardStatus)


@pytest.mark.parametrize(
    "reason", [NO_REASON, Reason(Code.STALE_INPUT, "a", "b", "c", "d", 1.0, 2.0)]
)
def test_a_reason_survives_the_way(reason):
    there = convert.reason_message(reason)
    assert there.name == reason.code.name
    back = convert.reason(there)
    np.testing.assert_equal(vars(back), vars(reason))  # NaN equals NaN here


def test_a_code_of_a_newer_version_is_not_lost():
    back = convert.reason(ReasonMessage(code=999, name="NEW_CAUSE", text="something"))
    assert back.code is Code.NOT_READY and "NEW_CAUSE" in back.text


@pytest.mark.parametrize("seconds", [0.0, 0.1, 1.9999999999, 1796143249.253035674])
def test_stamps(seconds):
    assert convert.seconds(convert.stamp(seconds)) == pytest.approx(seconds, abs=1e-6)
    assert convert.stamp(1.9999999999) == Time(sec=2, nanosec=0)


def test_case_1_every_order_gives_the_same_vector():
    read = reader()
    for order in itertools.islice(itertools.permutations(range(6)), 0, 720, 17):
        sample = read.read(message(order))
        np.testing.assert_array_equal(sample.position, Q)
        np.testing.assert_array_equal(sample.velocity, Q / 10)


def test_prefix_and_extra_joints():
    names = [f"left_{n}" for n in NAMES]
    mixed = message(names=names)
    mixed.name = ["gripper", *mixed.name]
    mixed.position = [9.0, *mixed.position]
    mixed.velocity = [9.0, *mixed.velocity]
    np.testing.assert_array_equal(reader("left_").read(mixed).position, Q)
    assert reader("right_").read(mixed).code is Code.INCOMPLETE_INPUT


@pytest.mark.parametrize(
    "broken",
    [
        message(range(5)),
        message([0, 1, 2, 3, 4, 4]),
        message(position=[1.0] * 5),
        message(velocity=[1.0] * 5),
        JointState(),
        JointState(name=["robotiq_85_left_knuckle_joint"], position=[0.1]),
    ],
)
def test_case_2_incomplete_messages_are_never_filled_up(broken):
    assert reader().read(broken).code is Code.INCOMPLETE_INPUT


def test_velocities_that_are_not_there():
    assert reader().read(message(moving=False)).code is Code.INCOMPLETE_INPUT
    assert reader(needs_velocity=False).read(message(moving=False)).velocity is None
    nan = message()
    nan.velocity[3] = float("nan")
    refusal = reader().read(nan)
    assert (refusal.code, refusal.joint) == (Code.INCOMPLETE_INPUT, NAMES[3])
    assert reader(needs_velocity=False).read(nan).velocity is None


def test_a_position_that_is_no_number():
    nan = message()
    nan.position[2] = float("inf")
    refusal = reader(needs_velocity=False).read(nan)
    assert (refusal.code, refusal.joint) == (Code.NON_FINITE, "elbow_joint")


def test_actions_and_sent_commands_go_by_name():
    commands = convert.Commands(NAMES, "left_", "position")
    action = commands.action_message(Q, 5.25, 3, 0.02, [0.5] * 6)
    assert action.joint_names[0] == f"left_{NAMES[0]}" and action.header.stamp.sec == 5
    order = [5, 3, 1, 0, 2, 4]
    action.joint_names = [action.joint_names[i] for i in order]
    action.targets = [float(Q[i]) for i in order]
    np.testing.assert_array_equal(commands.targets(action), Q)
    sent = commands.sent_message(Q, 1.0, 7, None)
    assert not sent.limited and sent.reason.name == "NONE"
    np.testing.assert_array_equal(commands.sent(sent), Q)
    assert commands.sent_message(Q, 1.0, 7, Reason(Code.STEP_LIMIT)).limited


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"targets": [1.0] * 5}, Code.WRONG_LENGTH),
        ({"horizon": 2}, Code.WRONG_LENGTH),
        ({"command_interface": "velocity"}, Code.WRONG_INTERFACE),
        ({"joint_names": [*NAMES[:5], "x"]}, Code.WRONG_JOINTS),
        ({"joint_names": [*NAMES, "x"], "targets": [1.0] * 7}, Code.WRONG_JOINTS),
        ({"joint_names": [*NAMES[:5], NAMES[0]]}, Code.WRONG_JOINTS),
    ],
)
def test_actions_that_are_not_for_this_arm(changes, code):
    commands = convert.Commands(NAMES, "", "position")
    action = commands.action_message(Q, 5.0, 1, 0.02, [])
    for name, value in changes.items():
        setattr(action, name, value)
    assert commands.targets(action).code is code
