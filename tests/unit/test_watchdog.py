"""Watchdogs: what is wrong with a stream, and since when."""

import numpy as np
import pytest

from rlinf_ros.safety.reason import Code, Reason
from rlinf_ros.safety.watchdog import JointStateWatchdog, Watchdog

from .safety_case import limits, off

Q = np.array([0.1, 0.2, 0.3])


@pytest.fixture
def joints():
    return JointStateWatchdog(limits(), "joint_states")


def test_never_seen_is_a_fault_of_its_own(joints):
    reason = joints.check(5.0)
    assert reason.code is Code.STALE_INPUT and reason.topic == "joint_states"
    assert "nothing has arrived" in reason.text and reason.value == np.inf


def test_case_26_age_over_the_threshold_is_stale():
    watch = Watchdog("joint_states", 0.010, Code.STALE_INPUT, "check the driver")
    watch.feed(1.000)
    assert watch.check(1.0099) is None
    reason = watch.check(1.011)
    assert reason.code is Code.STALE_INPUT
    assert reason.value == pytest.approx(0.011) and reason.limit == 0.010


def test_case_2_an_incomplete_message_changes_nothing_but_the_reason(joints):
    assert joints.accept(1.0, Q, None, 1.0) is None
    joints.refuse(Reason(Code.INCOMPLETE_INPUT, "joint 'c' is missing", topic="joint_states"))
    assert joints.check(1.05) is None  # the gripper's own message on the same topic is no fault
    np.testing.assert_array_equal(joints.position, Q)
    reason = joints.check(1.2)  # but if nothing else comes, it is why
    assert reason.code is Code.INCOMPLETE_INPUT and "'c' is missing" in reason.text
    assert "0.2 s" in reason.text
    assert joints.accept(1.2, Q, None, 1.2) is None and joints.check(1.2) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["position", "velocity"])
def test_case_22_values_that_are_no_numbers_are_not_used(joints, value, what):
    joints.accept(1.0, Q, Q, 1.0)
    bad = np.array([0.0, value, 0.0])
    reason = joints.accept(1.01, *((bad, Q) if what == "position" else (Q, bad)), 1.01)
    assert (reason.code, reason.joint) == (Code.NON_FINITE, "b")
    assert what in reason.text
    np.testing.assert_array_equal(joints.position, Q)
    assert joints.check(1.2).code is Code.NON_FINITE


def test_case_30_a_stamp_from_another_clock_is_refused(joints):
    reason = joints.accept(1.7e9, Q, None, 12.0)
    assert reason.code is Code.CLOCK_JUMP and "future" in reason.text
    assert not joints.seen
    assert joints.accept(12.0, Q, None, 1.7e9) is None  # an age, told as one
    assert joints.check(1.7e9).code is Code.STALE_INPUT


def test_stamps_that_go_back_are_told_once_and_then_followed(joints):
    joints.accept(100.0, Q, None, 100.0)
    assert joints.accept(99.99, Q + 1, None, 100.0) is None  # overtaken on the way
    np.testing.assert_array_equal(joints.position, Q)
    reason = joints.accept(3.0, Q, None, 3.0)
    assert reason.code is Code.CLOCK_JUMP and reason.value == pytest.approx(-97.0)
    assert joints.accept(3.002, Q, None, 3.002) is None and joints.check(3.002) is None


def test_case_27_frozen_needs_equal_values_and_a_moving_command(joints):
    window = joints.limits.frozen_window_s
    command = Q.copy()
    now = 0.0

    def go(seconds, speed, change):
        nonlocal now, command
        found = None
        for _ in range(round(seconds / 0.01)):
            now += 0.01
            command = command + off(speed * 0.01, 0, 0)
            joints.accept(now, Q + (change * now), None, now)
            found = joints.check_frozen(command, now) or found
        return found

    assert go(5.0, 0.0, 0.0) is None  # at rest
    assert go(1.0, 0.5, 1e-6) is None  # moving, values change
    reason = go(window + 0.2, 0.5, 0.0)
    assert reason.code is Code.FROZEN_INPUT and reason.joint == "a"
    joints.rearm()
    assert go(0.2, 0.0, 0.0) is None


def test_a_lone_step_that_the_arm_never_answers_is_frozen(joints):
    joints.accept(0.0, Q, None, 0.0)
    assert joints.check_frozen(Q, 0.0) is None
    found = None
    for i in range(1, 60):
        joints.accept(i * 0.01, Q, None, i * 0.01)
        found = found or joints.check_frozen(Q + off(0.05, 0, 0), i * 0.01)
    assert found.code is Code.FROZEN_INPUT
