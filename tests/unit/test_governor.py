"""The governor: starts, holds, stops, resumes, and what it lets through."""

import numpy as np
import pytest

from rlinf_ros.safety.governor import Governor, State
from rlinf_ros.safety.reason import Code, Reason

from .safety_case import JOINTS, Arm, limits, off


def test_case_16_nothing_before_the_first_complete_joint_state():
    arm = Arm()
    arm.governor.joint_state_refused(Reason(Code.INCOMPLETE_INPUT, "joint 'c' is missing"))
    decisions = arm.run(0.5, target=(0.0, 0.0, 0.0), states=False)
    assert arm.sent == []
    assert {d.state for d in decisions} == {State.WAITING}
    assert arm.governor.reason.code is Code.INCOMPLETE_INPUT  # the last cause, not just "stale"
    assert "joint 'c' is missing" in arm.governor.reason.text


def test_case_13_first_command_equals_pose_and_ramps():
    arm = Arm(max_start_distance_rad=1.5)
    start = arm.q.copy()
    arm.state()
    target = start + off(1.0, 0.0, 0.0)
    first = arm.act(target)
    assert first.anchor and first.state is State.RAMP
    np.testing.assert_allclose(first.command, start, atol=1e-6)
    arm.run(1.0, target=target)
    speeds = [
        np.max(np.abs(b - a)) / (tb - ta)
        for (ta, a), (tb, b) in zip(arm.sent, arm.sent[1:], strict=False)
    ]
    assert max(speeds) <= 0.5 + 1e-6
    assert 0.45 < arm.q[0] - start[0] < 0.51  # 1 s at 0.5 rad/s
    arm.run(1.5, target=target)
    np.testing.assert_allclose(arm.q, target, atol=1e-9)
    assert arm.governor.state is State.ACTIVE


def test_case_13_refuses_a_first_target_that_is_too_far():
    arm = Arm(max_start_distance_rad=0.5)
    arm.state()
    decision = arm.act(arm.q + off(0.0, 0.9, 0.0))
    assert decision.command is None and decision.state is State.HOLD
    assert decision.reason.code is Code.START_TOO_FAR
    assert decision.reason.joint == "b"
    assert decision.reason.value == pytest.approx(0.9) and decision.reason.limit == 0.5
    arm.run(0.1)
    assert arm.governor.reason.code is Code.START_TOO_FAR  # still told
    assert arm.act(arm.q).command is not None


def test_a_ramp_does_not_hold_back_a_policy_that_moves_from_its_last_command():
    arm = Arm()
    arm.state()
    seen = []

    def delta(a):
        seen.append(a.governor.state)
        return (a.sent[-1][1] if a.sent else a.q) + off(0.03, 0.0, 0.0)

    arm.run(0.4, target=delta)
    assert seen.count(State.RAMP) <= 5
    assert seen[-1] is State.ACTIVE


def test_case_19_steps_and_velocity_of_the_stream():
    arm = Arm(velocity=np.full(3, 1.5)).active()
    arm.sent.clear()
    path = iter(0.1 + 0.05 * np.arange(1, 30))
    arm.run(1.0, target=lambda a: (next(path), -0.2, 0.3), period=0.05, tick=0.002)
    assert len(arm.sent) > 60  # 20 Hz came in, more goes out
    for (ta, a), (tb, b) in zip(arm.sent, arm.sent[1:], strict=False):
        assert np.all(np.abs(b - a) <= 1.5 * (tb - ta) + 1e-9)
        assert np.all(np.abs(b - a) <= 0.04 + 1e-12)
    assert arm.q[0] == pytest.approx(0.1 + 0.05 * 20, abs=0.051)


def test_case_21_bounds_count_from_the_last_command_not_the_lagging_arm():
    governor = Governor(limits(), "position")
    history, now, q = [], 0.0, np.zeros(3)
    governor.joint_state(now, q, None, now)
    target = np.zeros(3)
    for i in range(1, 200):
        now = i * 0.02
        governor.joint_state(now, history[-1] if history else q, None, now)
        target = np.minimum(target + 0.03, 0.9)  # 1.5 rad/s
        history.append(target)
        decision = governor.action(target, now, now)
        if governor.state is State.ACTIVE and decision.command is not None:
            np.testing.assert_allclose(decision.command, target, atol=1e-12)  # no crawling
    assert governor.state is State.ACTIVE


def test_a_blocked_arm_is_not_run_away_from():
    arm = Arm().active()
    for _ in range(100):
        arm.now += 0.02
        arm.noise = 1e-9 - arm.noise
        arm.governor.joint_state(arm.now, np.array([0.1, -0.2, 0.3]) + arm.noise, None, arm.now)
        decision = arm.governor.action((1.9, -0.2, 0.3), arm.now, arm.now)
    assert decision.limit is not None and decision.limit.code is Code.TRACKING_LIMIT
    assert arm.governor._last[0] <= 0.1 + 0.3 + 1e-8


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ([np.nan, 0, 0], Code.NON_FINITE),
        ([0, np.inf, 0], Code.NON_FINITE),
        ([0, 0, -np.inf], Code.NON_FINITE),
        ([1e30, 0, 0], Code.POSITION_LIMIT),
        ([float(np.float16(65504)), 0, 0], Code.POSITION_LIMIT),
        ([0, 0], Code.WRONG_LENGTH),
        ([0, 0, 0, 0], Code.WRONG_LENGTH),
        ([], Code.WRONG_LENGTH),
        (0.0, Code.WRONG_LENGTH),
    ],
)
def test_case_22_a_bad_frame_is_dropped_whole_counted_and_held(bad, code):
    arm = Arm().active()
    before, held = arm.governor.dropped, arm.q.copy()
    decision = arm.act(bad)
    assert decision.state is State.HOLD and decision.reason.code is code
    np.testing.assert_array_equal(decision.command, held)  # the last command, no part of the frame
    assert arm.governor.dropped == before + 1
    assert arm.act(held).state is State.ACTIVE  # one bad frame in a run is bridged
    for _ in range(5):
        decision = arm.act(bad)
    assert decision.state is State.FAULT
    assert arm.act(held).command is None  # latched
    assert arm.governor.resume(arm.now) is None
    assert arm.act(held).anchor


def test_targets_beyond_a_limit_are_clipped_and_reported():
    arm = Arm(q=(0.1, -0.2, 0.9)).active((0.1, -0.2, 0.9))
    decisions = arm.run(0.2, target=(0.1, -0.2, 1.2))
    assert arm.q[2] == 1.0
    limited = [d.limit for d in decisions if d.limit]
    assert limited[-1].code is Code.POSITION_LIMIT
    assert (limited[-1].joint, limited[-1].limit) == ("c", 1.0)


def test_case_17_halt_in_position_mode_repeats_the_last_command_once():
    arm = Arm().active()
    arm.run(0.1, target=(0.3, -0.2, 0.3))
    arm.sent.clear()
    held = arm.q.copy()
    decision = arm.note(arm.governor.stop(arm.now))
    np.testing.assert_array_equal(decision.command, held)
    arm.run(1.0, target=(1.0, 1.0, 0.9))
    assert len(arm.sent) == 1
    assert arm.governor.reason.code is Code.STOP_REQUESTED


def test_case_17_halt_in_velocity_mode_brakes_to_zero():
    arm = Arm("velocity")
    arm.state()
    arm.run(0.5, target=(0.5, -0.5, 0.0))
    np.testing.assert_allclose(arm.velocity, [0.5, -0.5, 0.0])
    arm.sent.clear()
    arm.note(arm.governor.stop(arm.now))
    arm.run(0.5)
    np.testing.assert_array_equal(arm.sent[-1][1], np.zeros(3))
    assert len(arm.sent) > 5
    for (ta, a), (tb, b) in zip(arm.sent, arm.sent[1:], strict=False):
        assert np.all(np.abs(b - a) <= 5.0 * (tb - ta) + 1e-9)  # bounded braking


@pytest.mark.parametrize("interface", ["position", "velocity"])
def test_lost_heartbeats_hold_and_need_a_resume(interface):
    arm = Arm(interface).active(np.zeros(3) if interface == "velocity" else (0.1, -0.2, 0.3))
    arm.sent.clear()
    decisions = arm.run(0.06, beats=False)
    assert decisions[-1].state is State.HOLD
    assert decisions[-1].reason.code is Code.HEARTBEAT_LOST
    if interface == "position":
        assert len(arm.sent) == 1
    arm.run(0.7, beats=False)
    assert arm.governor.resume_required
    assert arm.governor.reason.code is Code.HEARTBEAT_LOST  # it is still silent
    arm.run(0.2, target=arm.q.copy() if interface == "position" else np.zeros(3))
    assert arm.governor.state is State.HOLD
    assert arm.governor.reason.code is Code.RESUME_REQUIRED
    assert "HEARTBEAT_LOST" in arm.governor.reason.text
    assert arm.governor.resume(arm.now) is None
    arm.run(0.2, target=arm.q.copy() if interface == "position" else np.zeros(3))
    assert arm.governor.state is State.ACTIVE


def test_a_hiccup_shorter_than_the_grace_time_needs_no_resume():
    arm = Arm().active()
    arm.run(0.1, beats=False)
    assert arm.governor.state is State.HOLD
    held = arm.q.copy()
    decision = arm.act(held + off(0.02, 0, 0))
    assert decision.state is State.ACTIVE and not decision.anchor


def test_stale_joint_states_hold_and_need_a_resume():
    arm = Arm().active()
    arm.sent.clear()
    arm.run(0.15, target=(0.5, -0.2, 0.3), states=False)
    assert arm.governor.state is State.HOLD
    assert arm.governor.reason.code is Code.STALE_INPUT
    count = len(arm.sent)
    arm.run(0.7, target=(0.5, -0.2, 0.3), states=False)
    assert len(arm.sent) == count
    assert arm.governor.resume(arm.now).code is Code.STALE_INPUT  # not while the cause lasts
    arm.run(0.2, target=(0.5, -0.2, 0.3))
    assert len(arm.sent) == count and arm.governor.reason.code is Code.RESUME_REQUIRED
    assert arm.governor.resume(arm.now) is None
    assert arm.act((0.5, -0.2, 0.3)).anchor


def test_case_14_resume_anchors_on_the_pose_after_a_jog():
    arm = Arm().active()
    arm.note(arm.governor.stop(arm.now))
    arm.q = arm.q + off(0.5, 0.0, 0.0)  # jogged by hand
    arm.sent.clear()
    arm.run(0.5, target=(0.1, -0.2, 0.3))
    assert arm.sent == []
    assert arm.governor.resume(arm.now) is None
    jogged = arm.q.copy()
    arm.state()
    decision = arm.act((0.2, -0.2, 0.3))
    np.testing.assert_allclose(decision.command, jogged, atol=1e-6)
    assert decision.state is State.RAMP


def test_case_27_frozen_values_with_fresh_stamps_are_a_fault():
    arm = Arm().active()
    q = arm.q.copy()
    faults = []
    for i in range(1, 801):
        arm.now += 0.001
        if i % 2 == 0:
            arm.governor.joint_state(arm.now, q, np.zeros(3), arm.now)
        if i % 20 == 0:
            faults.append(arm.governor.action(q + off(0.1, 0, 0), arm.now, arm.now))
        faults.append(arm.governor.tick(arm.now))
    assert arm.governor.state is State.FAULT
    assert arm.governor.reason.code is Code.FROZEN_INPUT
    assert arm.governor.reason.joint == "a"
    latched = next(i for i, d in enumerate(faults) if d.state is State.FAULT)
    assert all(d.command is None for d in faults[latched + 1 :])


def test_an_arm_at_rest_with_equal_values_is_not_frozen():
    arm = Arm().active()
    q = arm.q.copy()
    for i in range(1, 3001):
        arm.now += 0.001
        if i % 2 == 0:
            arm.governor.joint_state(arm.now, q, np.zeros(3), arm.now)
        if i % 20 == 0:
            arm.governor.action(q, arm.now, arm.now)
    assert arm.governor.state is State.ACTIVE
    arm.run(0.3, target=q + off(0.2, 0, 0))  # and the long rest does not count against a new motion
    assert arm.governor.state is State.ACTIVE


def test_the_end_of_a_run_holds_without_asking_for_a_resume():
    arm = Arm().active()
    arm.run(0.3)  # heartbeats only
    assert arm.governor.state is State.HOLD and not arm.governor.resume_required
    assert arm.governor.reason.code is Code.NONE
    assert arm.act(arm.q).anchor


def test_an_idle_policy_ends_the_run_at_once():
    arm = Arm().active()
    arm.sent.clear()
    decision = arm.note(arm.governor.policy_idle(arm.now))
    assert decision.state is State.HOLD and not decision.reason
    arm.q = arm.q + off(0.2, 0, 0)  # put elsewhere: nothing may call it back
    arm.run(0.5)
    assert len(arm.sent) == 1 and not arm.governor.resume_required
    assert arm.act(arm.q).anchor


def test_time_that_goes_back_stops_a_moving_arm():
    arm = Arm().active()
    arm.now -= 10.0
    decision = arm.governor.tick(arm.now)
    assert decision.state is State.HOLD and decision.reason.code is Code.CLOCK_JUMP
    arm.run(0.2, target=arm.q.copy())
    assert arm.governor.resume_required
    assert arm.governor.resume(arm.now) is None
    assert arm.act(arm.q).anchor


def test_joint_states_whose_stamps_go_back_stop_a_moving_arm():
    arm = Arm().active()
    decision = arm.state(age=1.0)
    assert decision.state is State.HOLD and decision.reason.code is Code.CLOCK_JUMP
    assert decision.reason.value == pytest.approx(-1.0)


def test_an_action_from_an_old_joint_state_is_dropped():
    arm = Arm().active()
    decision = arm.act(arm.q, age=0.5)
    assert decision.state is State.HOLD and decision.reason.code is Code.STALE_INPUT


def test_a_pose_outside_the_limits_is_no_start():
    arm = Arm(q=(0.1, -0.2, 1.2))
    arm.state()
    decision = arm.act((0.1, -0.2, 0.9))
    assert decision.command is None and decision.reason.code is Code.POSITION_LIMIT
    assert decision.reason.joint == JOINTS[2]


def test_fault_is_latched_and_silent_until_resume():
    arm = Arm().active()
    first = arm.governor.fault(Reason(Code.POLICY_ERROR, "something broke"), arm.now)
    np.testing.assert_array_equal(first.command, arm.q)
    arm.sent.clear()
    arm.run(1.0, target=(0.5, 0.0, 0.0))
    arm.note(arm.governor.stop(arm.now))
    assert arm.sent == [] and arm.governor.reason.code is Code.POLICY_ERROR
    assert arm.governor.resume(arm.now) is None and arm.governor.state is State.HOLD


def test_a_velocity_near_a_position_limit_is_braked():
    arm = Arm("velocity", q=(0.0, 0.0, 0.5)).active(np.zeros(3))
    decisions = arm.run(2.0, target=(0.0, 0.0, 1.9))
    assert arm.q[2] < 1.0
    assert any(d.limit and d.limit.code is Code.POSITION_LIMIT for d in decisions)
    assert max(abs(v[2]) for _, v in arm.sent) <= 2.0
