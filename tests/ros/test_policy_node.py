"""policy_node with a guard and a stand-in arm: lifecycle, goals, and the death of the policy."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 (rclpy) is not installed")
pytest.importorskip("rlinf_ros_msgs", reason="messages are not built: make ros-build")
pytest.importorskip("onnx", reason="needs onnx to build a policy")

from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.action import ActionClient
from std_srvs.srv import Trigger

from rlinf_ros.contract.load import load_contract
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.ros.messages import (
    GuardStatus,
    PolicyAction,
    PolicyObservation,
    PolicyStatus,
    RunPolicy,
    SentCommand,
)
from rlinf_ros.safety.reason import Code

from .harness import LATCHED, UR5E, Client, Process, StandInArm, namespace, servo_bundle

POLICY, GUARD = "rlinf_ros.ros.policy_node", "rlinf_ros.ros.guard_node"
TOOL = Kinematics.from_robot(UR5E).forward_pose(UR5E.home)[0]
CONTRACT = load_contract(UR5E.path.parent / "contracts" / "reach_position.yaml")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return servo_bundle(tmp_path_factory.mktemp("bundles") / "servo")


class Bench:
    """Arm, guard and policy in a namespace."""

    def __init__(
        self, space, folder, bundle, *, guard=True, autostart=True, prefix="", **parameters
    ):
        self.space, self.folder, self.prefix = space, folder, prefix
        self.common = {"tf_prefix": prefix} if prefix else {}
        self.parameters = {"bundle": bundle, "autostart": autostart, **self.common, **parameters}
        self.arm = StandInArm(space, prefix)
        self.client = Client(space)
        self.statuses = self.client.collect(PolicyStatus, "policy/status")
        self.guard_statuses = self.client.collect(GuardStatus, "guard/status", LATCHED)
        self.actions = self.client.collect(PolicyAction, "policy/action")
        self.observations = self.client.collect(PolicyObservation, "policy/observation")
        self.sent = self.client.collect(SentCommand, "guard/sent_command")
        self.run = ActionClient(self.client.node, RunPolicy, "policy/run")
        self.feedback: list = []
        # A busy machine must not end a run; a new policy takes longer to start than this.
        limits = {"hold_grace_s": 1.5, **self.common}
        self.guard = Process(GUARD, space, folder / "guard.log", **limits) if guard else None
        self.start_policy()

    def start_policy(self):
        self.policy = Process(POLICY, self.space, self.folder / "policy.log", **self.parameters)

    def wait_for(self, condition, what, timeout_s=30.0):
        processes = [p for p in (self.policy, self.guard) if p]
        return self.client.wait_for(condition, what, timeout_s, processes)

    def reach(self, state):
        def there():
            return self.statuses and self.statuses[-1].state == state

        self.wait_for(there, f"policy in state {state}")

    def ready(self):
        self.reach(PolicyStatus.IDLE)
        self.guard_is(GuardStatus.HOLD, Code.NONE)

    def guard_is(self, state, code):
        def there():
            last = self.guard_statuses[-1] if self.guard_statuses else None
            return last and last.state == state and last.reason.code == code

        self.wait_for(there, f"guard in state {state}, reason {code!r}")

    def goal(self, offset=(0.04, 0.03, -0.03), frame="base_link", **changes):
        goal = RunPolicy.Goal(
            duration_s=15.0,
            position_tolerance_m=0.005,
            orientation_tolerance_rad=float(np.pi),
            stop_on_success=True,
        )
        goal.target.header.frame_id = self.prefix + frame
        p = TOOL + np.asarray(offset)
        if frame == "base":
            p = p * [-1, -1, 1]
        goal.target.pose.position.x, goal.target.pose.position.y, goal.target.pose.position.z = p
        goal.target.pose.orientation.w = 1.0
        for name, value in changes.items():
            setattr(goal, name, value)
        return goal

    def send(self, goal):
        self.wait_for(self.run.server_is_ready, "action policy/run")
        future = self.run.send_goal_async(
            goal, feedback_callback=lambda m: self.feedback.append(m.feedback)
        )
        handle = self.client.result(future, "answer to the goal")
        assert handle.accepted
        return handle

    def result(self, handle, timeout_s=30.0):
        future = handle.get_result_async()
        self.wait_for(future.done, "result of the goal", timeout_s)
        return future.result()

    def change(self, transition):
        request = ChangeState.Request(transition=Transition(id=transition))
        return self.client.call(ChangeState, "policy_node/change_state", request, 20.0).success

    def lifecycle(self):
        response = self.client.call(GetState, "policy_node/get_state", GetState.Request())
        return response.current_state.id

    def tool(self):
        return Kinematics.from_robot(UR5E).forward_pose(self.arm.q)[0]

    def close(self):
        for process in (self.policy, self.guard):
            if process:
                process.stop()
        self.client.close()
        self.arm.close()


@pytest.fixture
def bench(tmp_path, request, bundle):
    made = []

    def make(**parameters):
        parameters.setdefault("bundle", bundle)
        made.append(Bench(namespace(request), tmp_path, **parameters))
        return made[-1]

    yield make
    for b in made:
        b.close()


@pytest.mark.parametrize(("frame", "prefix"), [("base_link", ""), ("base", "left_")])
def test_case_9_a_goal_is_reached_in_either_base_frame(bench, frame, prefix):
    b = bench(prefix=prefix)
    b.ready()
    outcome = b.result(b.send(b.goal(frame=frame)))
    result = outcome.result
    assert outcome.status == GoalStatus.STATUS_SUCCEEDED, result
    assert result.success and result.reason.code == Code.GOAL_REACHED
    assert result.position_error_m <= 0.005 and result.steps > 10 and result.elapsed_s > 0.2
    assert np.linalg.norm(b.tool() - TOOL - [0.04, 0.03, -0.03]) < 0.01
    assert b.feedback and b.feedback[0].position_error_m > b.feedback[-1].position_error_m
    assert b.observations[0].contract_sha256 == CONTRACT.sha256
    second = b.result(b.send(b.goal((-0.02, 0.0, 0.02), frame))).result
    assert second.success, second


def terms(message):
    """The observation's terms by name."""
    ends = np.cumsum(message.term_sizes)
    blocks = np.split(np.array(message.data, dtype=float), ends[:-1])
    return dict(zip(message.term_names, blocks, strict=True))


def test_the_policy_sees_what_was_really_sent(bench):
    b = bench()
    b.ready()
    assert b.result(b.send(b.goal())).result.success
    offset = np.array(CONTRACT.observation.terms[0].offset)
    commands = []
    for message in b.observations:
        seen = terms(message)
        commands.append(seen["command_error"] / 5.0 + seen["joint_position"] + offset)
    sent = np.array([m.command for m in b.sent])
    assert len(commands) > 10
    for k in range(1, len(commands)):
        distance = np.max(np.abs(sent - commands[k]), axis=1)
        assert np.min(distance) < 1e-5, f"step {k} saw a last command that was never sent"
        # In action units, from the state that the step before saw.
        expected = (commands[k] - commands[k - 1]) / 0.05
        np.testing.assert_allclose(
            terms(b.observations[k])["last_action"], expected, atol=1e-4, err_msg=f"step {k}"
        )
    np.testing.assert_allclose(commands[0], UR5E.home, atol=1e-5)  # none sent yet: stay


def test_actions_carry_the_stamp_of_the_joint_state_and_the_guard_answers_them(bench):
    b = bench()
    b.ready()
    assert b.result(b.send(b.goal())).result.success
    action = b.actions[0]
    assert action.sequence == 1 and action.horizon == 1 and action.step_dt == 0.02
    assert list(action.joint_names) == list(UR5E.joint_names) and len(action.raw_action) == 6
    assert b.sent[0].policy_sequence == 0  # the measured pose
    answered = [m.policy_sequence for m in b.sent if m.policy_sequence]
    assert answered and answered == sorted(answered)


def test_an_arm_that_is_put_elsewhere_after_a_run_is_not_called_back(bench):
    b = bench()
    b.ready()
    assert b.result(b.send(b.goal())).result.success
    b.guard_is(GuardStatus.HOLD, Code.NONE)
    count = len(b.arm.commands)
    b.arm.q = UR5E.home + 0.05
    time.sleep(0.3)
    assert len(b.arm.commands) == count
    assert b.result(b.send(b.goal())).result.success
    np.testing.assert_allclose(b.arm.commands[count][1], UR5E.home + 0.05, atol=1e-6)


def test_bad_goals_are_refused_with_a_reason(bench):
    b = bench()
    b.ready()
    bad = [
        (b.goal(frame="world"), "base_link"),
        (b.goal(duration_s=0.0), "duration_s"),
        (b.goal(position_tolerance_m=float("nan")), "position_tolerance_m"),
        (b.goal((float("nan"), 0, 0)), "position"),
    ]
    zero = b.goal()
    zero.target.pose.orientation.w = 0.0
    for goal, word in [*bad, (zero, "orientation")]:
        outcome = b.result(b.send(goal))
        assert outcome.status == GoalStatus.STATUS_ABORTED
        assert outcome.result.reason.code == Code.INVALID_GOAL
        assert outcome.result.reason.name == "INVALID_GOAL"
        assert word in outcome.result.reason.text, outcome.result.reason
    assert b.actions == []


def test_one_goal_at_a_time_cancel_and_time_limit(bench):
    b = bench()
    b.ready()
    far = b.goal((0.0, 0.0, 0.05), position_tolerance_m=1e-9)
    first = b.send(far)
    b.reach(PolicyStatus.RUNNING)
    second = b.result(b.send(b.goal()))
    assert second.status == GoalStatus.STATUS_ABORTED
    assert "another goal" in second.result.reason.text
    b.wait_for(lambda: len(b.actions) > 1, "a step of the first goal")
    b.client.result(first.cancel_goal_async(), "answer to the cancellation")
    outcome = b.result(first)
    assert outcome.status == GoalStatus.STATUS_CANCELED
    assert outcome.result.reason.code == Code.CANCELLED and outcome.result.steps > 0
    b.reach(PolicyStatus.IDLE)
    far.duration_s = 0.5
    outcome = b.result(b.send(far))
    assert outcome.status == GoalStatus.STATUS_ABORTED
    assert outcome.result.reason.code == Code.TIME_LIMIT and not outcome.result.success
    assert 0.5 <= outcome.result.elapsed_s < 2.0


def test_sigkill_of_the_policy_holds_and_a_new_one_needs_a_resume(bench):
    b = bench()
    b.ready()
    b.send(b.goal((0.0, 0.0, 0.08), position_tolerance_m=1e-9))
    b.wait_for(lambda: any(m.policy_sequence > 5 for m in b.sent), "a moving arm")
    b.policy.signal(signal.SIGKILL)
    b.guard_is(GuardStatus.HOLD, Code.HEARTBEAT_LOST)
    assert b.guard.alive
    held = b.arm.commands[-1][1]
    count = len(b.arm.commands)
    time.sleep(0.4)
    assert len(b.arm.commands) == count
    np.testing.assert_array_equal(b.arm.q, held)
    b.statuses.clear()
    b.start_policy()
    b.reach(PolicyStatus.IDLE)
    b.guard_is(GuardStatus.HOLD, Code.RESUME_REQUIRED)
    outcome = b.result(b.send(b.goal()))
    assert outcome.result.reason.code == Code.RESUME_REQUIRED  # the run says what is missing
    assert len(b.arm.commands) == count
    assert b.client.call(Trigger, "guard/resume", Trigger.Request()).success
    assert b.result(b.send(b.goal())).result.success


def test_a_guard_that_is_not_there_ends_the_run_with_a_reason(bench):
    b = bench(guard=False)
    b.reach(PolicyStatus.IDLE)
    result = b.result(b.send(b.goal())).result
    assert result.reason.code == Code.NOT_READY and "guard_node" in result.reason.remedy


def test_case_26_joint_states_that_stop_end_the_run(bench):
    b = bench()
    b.ready()
    handle = b.send(b.goal((0.0, 0.0, 0.05), position_tolerance_m=1e-9))
    b.reach(PolicyStatus.RUNNING)
    b.arm.mode = "incomplete"
    result = b.result(handle).result
    assert result.reason.code in (Code.INCOMPLETE_INPUT, Code.STALE_INPUT)
    count = len(b.actions)
    time.sleep(0.3)
    assert len(b.actions) == count


def test_lifecycle_by_hand(bench):
    b = bench(autostart=False)
    assert b.lifecycle() == State.PRIMARY_STATE_UNCONFIGURED
    b.arm.mode = "silent"
    assert b.change(Transition.TRANSITION_CONFIGURE), b.policy.text()
    assert b.lifecycle() == State.PRIMARY_STATE_INACTIVE
    assert "verified on 12 samples" in b.policy.text()
    refused = b.result(b.send(b.goal())).result
    assert refused.reason.code == Code.NOT_READY and "not active" in refused.reason.text
    # Case 16: no activation without joint states, and the reason is readable.
    assert not b.change(Transition.TRANSITION_ACTIVATE)
    assert b.lifecycle() == State.PRIMARY_STATE_INACTIVE
    assert "joint_states" in b.policy.text() and "STALE_INPUT" in b.policy.text()
    b.arm.mode = "normal"
    activate = lambda: b.change(Transition.TRANSITION_ACTIVATE)  # noqa: E731
    b.client.wait_for(activate, "active with joint states", processes=[b.policy])
    # If the guard had heard the arm before it fell silent, it waits for this.
    resume = lambda: b.client.call(Trigger, "guard/resume", Trigger.Request()).success  # noqa: E731
    b.wait_for(resume, "guard resumed")
    b.ready()
    handle = b.send(b.goal((0.0, 0.0, 0.05), position_tolerance_m=1e-9))
    b.reach(PolicyStatus.RUNNING)
    assert b.change(Transition.TRANSITION_DEACTIVATE)
    result = b.result(handle).result
    assert result.reason.code == Code.NOT_READY and "deactivated" in result.reason.text
    assert b.change(Transition.TRANSITION_CLEANUP)
    assert b.lifecycle() == State.PRIMARY_STATE_UNCONFIGURED
    assert b.change(Transition.TRANSITION_CONFIGURE) and b.change(Transition.TRANSITION_ACTIVATE)
    assert b.result(b.send(b.goal())).result.success


def test_a_bundle_that_fails_its_own_check_is_not_configured(bench, tmp_path):
    b = bench(bundle=servo_bundle(tmp_path / "spoilt", spoil=1.01), guard=False)
    assert b.policy.wait(30.0) == 2
    assert "BUNDLE_ERROR" in b.policy.text() and "action of" in b.policy.text()
    assert "Traceback" not in b.policy.text()


def test_a_bundle_of_another_robot_is_not_configured(bench):
    b = bench(guard=False, robot="ur5")
    assert b.policy.wait(30.0) == 2
    assert "made for robot 'ur5e'" in b.policy.text()


def test_autostart_without_joint_states_ends_in_time_with_a_reason(bench):
    b = bench(guard=False, autostart_timeout_s=2.0)
    b.arm.mode = "silent"
    assert b.policy.wait(30.0) == 2
    assert "joint_states" in b.policy.text() and "autostart failed" in b.policy.text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_and_its_run_in_order(bench, number):
    b = bench()
    b.ready()
    handle = b.send(b.goal((0.0, 0.0, 0.05), position_tolerance_m=1e-9))
    b.reach(PolicyStatus.RUNNING)
    future = handle.get_result_async()
    time.sleep(0.2)
    b.policy.signal(number)
    assert b.policy.wait(5.0) == 0, b.policy.text()
    b.wait_for(future.done, "the result of the run that ended with the node")
    assert future.result().result.reason.code == Code.NOT_READY
    assert "Traceback" not in b.policy.text()
