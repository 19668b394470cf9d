"""Goals and runs: frames, tolerances, dwell, time, and a run that gets nowhere."""

import numpy as np
import pytest

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.pipeline.rotations import quat_angle
from rlinf_ros.robot.description import load_robot
from rlinf_ros.runtime.goal import Goal, GoalFrames
from rlinf_ros.runtime.run import Run, RunLimits
from rlinf_ros.safety.reason import Code, Reason

# The same pose of tool0 in both frames; golden values of UR5e at (.3, -1.2, 1.5, -1.9, -1.4, .7).
IN_BASE = [-0.558621, -0.330054, 0.347516]
IN_BASE_LINK = [0.558621, 0.330054, 0.347516]
QUAT_BASE_LINK = np.array([-0.551497, 0.829678, 0.077740, 0.037971])
TURN = np.array([0.0, 0.0, 1.0, 0.0])  # 180 degrees about z


@pytest.mark.parametrize("prefix", ["", "left_"])
def test_case_9_goals_are_converted_by_the_frame_they_name(prefix):
    from rlinf_ros.pipeline.rotations import quat_multiply

    frames = GoalFrames(load_robot("ur5e"), prefix)
    goal = frames.read(f"{prefix}base_link", IN_BASE_LINK, QUAT_BASE_LINK)
    np.testing.assert_allclose(goal.position, IN_BASE_LINK, atol=1e-12)
    quat_base = quat_multiply(TURN, QUAT_BASE_LINK)
    turned = frames.read(f"{prefix}base", IN_BASE, quat_base)
    np.testing.assert_allclose(turned.position, IN_BASE_LINK, atol=1e-9)
    assert quat_angle(turned.quat_xyzw, goal.quat_xyzw) < 1e-6


@pytest.mark.parametrize("frame", ["world", "", "/base_link", "tool0", "left_base_link"])
def test_other_frames_are_refused_with_what_is_allowed(frame):
    with pytest.raises(ConfigError) as error:
        GoalFrames(load_robot("ur5e")).read(frame, IN_BASE_LINK, QUAT_BASE_LINK)
    assert "base_link" in error.value.allowed and "frame_id" in error.value.where


@pytest.mark.parametrize(
    ("position", "quat"),
    [
        ([np.nan, 0, 0], [0, 0, 0, 1]),
        ([0, 0, np.inf], [0, 0, 0, 1]),
        ([0, 0, 0], [0, 0, 0, 0]),
        ([0, 0, 0], [0, 0, 0.5, 0.5]),
        ([0, 0, 0], [np.nan, 0, 0, 1]),
    ],
)
def test_case_7_goals_that_are_no_pose_are_refused(position, quat):
    with pytest.raises(ConfigError):
        GoalFrames(load_robot("ur5e")).read("base_link", position, quat)


def run(**changes):
    values = {
        "duration_s": 4.0,
        "position_tolerance_m": 0.03,
        "orientation_tolerance_rad": 0.17,
        "stop_on_success": True,
        "dwell_s": 0.2,
        "patience_s": 1.0,
    }
    return Run(Goal(np.zeros(3), TURN), RunLimits(**(values | changes)), 100.0)


def test_success_needs_both_tolerances_for_the_dwell_time():
    r = run()
    assert r.update(100.0, 0.01, 0.1) is None
    assert r.update(100.1, 0.01, 0.5) is None  # the angle leaves: dwell starts anew
    assert r.update(100.15, 0.01, 0.1) is None
    assert r.update(100.3, 0.01, 0.1) is None
    end = r.update(100.36, 0.01, 0.1)
    assert end.code is Code.GOAL_REACHED and r.within_tolerance


def test_without_stop_on_success_the_pose_is_kept_until_the_end():
    r = run(stop_on_success=False)
    for t in np.arange(100.0, 104.0, 0.1):
        assert r.update(t, 0.01, 0.1) is None
    assert r.update(104.0, 0.01, 0.1).code is Code.GOAL_REACHED


def test_the_time_limit_is_no_success_outside_the_tolerances():
    r = run()
    assert r.update(103.9, 0.05, 0.1) is None
    end = r.update(104.0, 0.05, 0.1)
    assert end.code is Code.TIME_LIMIT and not r.within_tolerance
    assert end.limit == 4.0


def test_unknown_errors_are_no_success():
    assert run().update(104.0, np.nan, np.nan).code is Code.TIME_LIMIT


def test_a_hindrance_ends_the_run_after_the_patience():
    r = run()
    stale = Reason(Code.STALE_INPUT, "old")
    assert r.update(100.0, 0.5, 0.5, stale) is None
    assert r.update(100.9, 0.5, 0.5, stale) is None
    assert r.update(100.95, 0.5, 0.5) is None  # it went on
    assert r.update(101.0, 0.5, 0.5, stale) is None
    assert r.update(101.9, 0.5, 0.5, stale) is None
    assert r.update(102.0, 0.5, 0.5, stale) is stale


def test_a_stop_or_a_final_hindrance_ends_the_run_at_once():
    stop = Reason(Code.STOP_REQUESTED, "operator")
    assert run().update(100.0, 0.5, 0.5, stop) is stop
    fault = Reason(Code.FROZEN_INPUT, "frozen")
    assert run().update(100.0, 0.5, 0.5, fault, final=True) is fault


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "name", ["duration_s", "position_tolerance_m", "orientation_tolerance_rad"]
)
def test_run_limits_must_make_sense(name, value):
    with pytest.raises(ConfigError) as error:
        run(**{name: value}).limits.check()
    assert error.value.where == name
