"""SafetyLimits from robot.yaml, and the bounds of one command."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.robot.description import load_robot
from rlinf_ros.safety.limits import SafetyLimits
from rlinf_ros.safety.motion import bounded_position, bounded_velocity, braked_velocity
from rlinf_ros.safety.reason import NO_REASON, Code, Reason

from .safety_case import limits


def test_limits_come_from_the_robot():
    robot = load_robot("ur5e")
    bounds = SafetyLimits.from_robot(robot)
    assert bounds.joint_names == robot.joint_names
    np.testing.assert_array_equal(bounds.lower, robot.lower)
    np.testing.assert_array_equal(bounds.velocity, robot.velocity)
    assert bounds.max_step_rad == 0.04  # what a UR5e's program still follows


def test_overrides_tighten():
    robot = load_robot("ur5e")
    overrides = {"velocity_scale": 0.5, "position_margin_rad": 0.1, "max_step_rad": 0.02}
    bounds = SafetyLimits.from_robot(robot, overrides)
    np.testing.assert_allclose(bounds.velocity, robot.velocity / 2)
    np.testing.assert_allclose(bounds.upper, robot.upper - 0.1)
    assert bounds.max_step_rad == 0.02


@pytest.mark.parametrize(
    ("overrides", "where"),
    [
        ({"max_step_rad": 0.2}, "max_step_rad"),
        ({"velocity_scale": 1.5}, "velocity_scale"),
        ({"velocity_scale": 0.0}, "velocity_scale"),
        ({"position_margin_rad": -0.1}, "position_margin_rad"),
        ({"position_margin_rad": 4.0}, "position_margin_rad"),
        ({"input_max_age_s": 0.0}, "input_max_age_s"),
        ({"heartbeat_timeout_s": float("nan")}, "heartbeat_timeout_s"),
        ({"hartbeat_timeout_s": 1.0}, "hartbeat_timeout_s"),
        ({"joint_names": 1.0}, "joint_names"),
    ],
)
def test_overrides_that_loosen_or_are_unknown_are_errors(overrides, where):
    with pytest.raises(ConfigError) as error:
        SafetyLimits.from_robot(load_robot("ur5e"), overrides)
    assert error.value.where == where


def test_an_unknown_limit_suggests_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'heartbeat_timeout_s'"):
        SafetyLimits.from_robot(load_robot("ur5e"), {"hartbeat_timeout_s": 1.0})


LIMITS = limits()
inside = arrays(np.float64, 3, elements=st.floats(-1.0, 1.0))
anything = arrays(np.float64, 3, elements=st.floats(-1e6, 1e6))
pause = st.floats(0.0, 1.0)


@settings(max_examples=300, deadline=None)
@given(target=anything, last=inside, measured=inside, dt=pause)
def test_a_position_command_obeys_step_velocity_and_position(target, last, measured, dt):
    command, reason = bounded_position(target, last, measured, LIMITS, dt)
    assert np.all(np.abs(command - last) <= np.minimum(LIMITS.velocity * dt, 0.04) + 1e-12)
    assert np.all((command >= LIMITS.lower) & (command <= LIMITS.upper))
    assert (reason is None) == (np.max(np.abs(command - target)) <= 1e-9)


@settings(max_examples=300, deadline=None)
@given(target=anything, last=inside, measured=inside, dt=pause)
def test_a_velocity_command_obeys_velocity_and_acceleration(target, last, measured, dt):
    command, reason = bounded_velocity(target, last, measured, LIMITS, dt)
    assert np.all(np.abs(command) <= LIMITS.velocity)
    faster = np.abs(command) - np.abs(last)
    assert np.all(faster <= LIMITS.acceleration * dt + 1e-9)
    assert (reason is None) == (np.max(np.abs(command - target)) <= 1e-9)


@settings(max_examples=100, deadline=None)
@given(last=inside, measured=inside, dt=st.floats(0.001, 0.05))
def test_braking_ends_at_exactly_zero(last, measured, dt):
    command = last
    for _ in range(1000):
        slower = braked_velocity(command, measured, LIMITS, dt)
        assert np.all(np.abs(slower) <= np.abs(command))
        command = slower
    assert not np.any(command)


@pytest.mark.parametrize(
    ("target", "dt", "code", "joint"),
    [
        ([0.5, 0.0, 0.0], 1.0, Code.STEP_LIMIT, "a"),
        ([0.03, 0.0, 0.03], 0.008, Code.VELOCITY_LIMIT, "c"),
        ([0.0, 0.0, 1.01], 1.0, Code.STEP_LIMIT, "c"),
    ],
)
def test_the_reason_names_the_limit_and_the_joint(target, dt, code, joint):
    zero = np.zeros(3)
    _, reason = bounded_position(np.array(target), zero, zero, LIMITS, dt)
    assert (reason.code, reason.joint) == (code, joint)
    assert joint in reason.text and reason.remedy


def test_no_reason_is_false_and_a_reason_is_true():
    assert not NO_REASON
    assert Reason(Code.STALE_INPUT, "old") and "STALE_INPUT: old" in str(
        Reason(Code.STALE_INPUT, "old")
    )
