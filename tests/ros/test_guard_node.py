"""guard_node as a process: what it sends, and when it sends nothing."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 (rclpy) is not installed")
pytest.importorskip("rlinf_ros_msgs", reason="messages are not built: make ros-build")

from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from rlinf_ros.ros.messages import GuardStatus, PolicyAction, PolicyStatus, SentCommand
from rlinf_ros.safety.reason import Code

from .harness import COMMANDS, LATCHED, UR5E, Client, Process, StandInArm, namespace

MODULE = "rlinf_ros.ros.guard_node"


class StandInPolicy:
    """Sends actions and heartbeats at 50 Hz from a timer: `target` None = heartbeats only."""

    def __init__(self, client: Client, arm: StandInArm, prefix: str = "") -> None:
        self.client, self.arm, self.prefix = client, arm, prefix
        self.target: np.ndarray | None = None
        self.alive, self.sequence = True, 0
        node = client.node
        self.actions = node.create_publisher(PolicyAction, "policy/action", 1)
        self.beats = node.create_publisher(PolicyStatus, "policy/status", 1)
        node.create_timer(0.02, self.step)

    def message(self, target, names=None) -> PolicyAction:
        self.sequence += 1
        message = PolicyAction(
            sequence=self.sequence,
            command_interface="position",
            joint_names=[self.prefix + n for n in (names or UR5E.joint_names)],
            step_dt=0.02,
            horizon=1,
            targets=[float(v) for v in target],
        )
        message.header.stamp = self.client.node.get_clock().now().to_msg()
        return message

    def step(self) -> None:
        if not self.alive:
            return
        self.beats.publish(PolicyStatus(state=PolicyStatus.RUNNING))
        if self.target is not None:
            self.actions.publish(self.message(self.target))


class Bench:
    """Arm, policy and guard in a namespace."""

    def __init__(self, namespace, log, prefix="", **parameters):
        parameters.setdefault("hold_grace_s", 0.3)  # the tests need not wait for longer
        self.arm = StandInArm(namespace, prefix)
        self.client = Client(namespace)
        self.statuses = self.client.collect(GuardStatus, "guard/status", LATCHED)
        self.sent = self.client.collect(SentCommand, "guard/sent_command")
        self.policy = StandInPolicy(self.client, self.arm, prefix)
        if prefix:
            parameters["tf_prefix"] = prefix
        self.guard = Process(MODULE, namespace, log, **parameters)

    def wait_for(self, condition, what, timeout_s=30.0):
        return self.client.wait_for(condition, what, timeout_s, [self.guard])

    def state(self):
        return self.statuses[-1].state if self.statuses else None

    def code(self):
        return self.statuses[-1].reason.code if self.statuses else None

    def reach(self, state, code=None, timeout_s=30.0):
        what = f"guard in state {state}, reason {code}"
        return self.wait_for(
            lambda: self.state() == state and code in (None, self.code()), what, timeout_s
        )

    def run_to(self, offset):
        self.policy.target = UR5E.home + np.asarray(offset)
        self.reach(GuardStatus.ACTIVE)

    def call(self, name):
        return self.client.call(Trigger, name, Trigger.Request())

    def close(self):
        self.guard.stop()
        self.client.close()
        self.arm.close()


@pytest.fixture
def bench(tmp_path, request):
    made = []

    def make(**parameters):
        made.append(Bench(namespace(request), tmp_path / "guard.log", **parameters))
        return made[-1]

    yield make
    for b in made:
        b.close()


def quiet(b, seconds):
    """Commands that came within the next seconds."""
    count = len(b.arm.commands)
    time.sleep(seconds)
    return len(b.arm.commands) - count


def test_case_13_first_command_equals_pose_and_the_rest_ramps(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    start = b.arm.q.copy()
    b.policy.target = start + np.array([0.3, 0.0, 0.0, 0.0, 0.0, -0.2])
    b.wait_for(lambda: np.allclose(b.arm.q, b.policy.target, atol=1e-6), "the target")
    b.reach(GuardStatus.ACTIVE)
    commands = np.array([c for _, c in b.arm.commands])
    np.testing.assert_allclose(commands[0], start, atol=1e-6)
    assert np.max(np.abs(np.diff(commands, axis=0))) <= 0.04 + 1e-12
    # By the guard's own stamps: never faster than the ramp's 0.5 rad/s.
    times = [m.header.stamp.sec + m.header.stamp.nanosec * 1e-9 for m in b.sent]
    sent = np.array([m.command for m in b.sent])
    speeds = np.abs(np.diff(sent, axis=0)) / np.diff(times)[:, None]
    assert np.max(speeds) <= 0.5 * 1.001
    assert list(b.sent[0].joint_names) == list(UR5E.joint_names)
    assert b.sent[0].policy_sequence == 0 and not b.sent[0].limited


def test_case_13_refuses_a_target_that_is_too_far(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    b.policy.target = UR5E.home + np.array([1.0, 0, 0, 0, 0, 0])
    b.reach(GuardStatus.HOLD, Code.START_TOO_FAR)
    assert b.statuses[-1].reason.joint == "shoulder_pan_joint"
    assert b.arm.commands == []


def test_case_16_nothing_before_a_complete_joint_state(bench):
    b = bench()
    b.arm.mode = "incomplete"
    b.policy.target = UR5E.home
    b.reach(GuardStatus.WAITING, Code.INCOMPLETE_INPUT)
    assert "elbow_joint" in b.statuses[-1].reason.text
    assert quiet(b, 0.3) == 0 and b.arm.commands == []
    b.arm.mode = "normal"
    b.reach(GuardStatus.ACTIVE)


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("silent", Code.STALE_INPUT),
        ("nan", Code.NON_FINITE),
        ("incomplete", Code.INCOMPLETE_INPUT),
        ("gripper_only", Code.INCOMPLETE_INPUT),
    ],
)
def test_unusable_joint_states_hold_until_an_explicit_resume(bench, mode, code):
    b = bench()
    b.reach(GuardStatus.HOLD)
    b.run_to([0.1, 0, 0, 0, 0, 0])
    b.arm.mode = mode
    b.reach(GuardStatus.HOLD, code)
    held = b.arm.commands[-1][1]
    b.policy.target = UR5E.home + 0.2
    time.sleep(0.5)
    b.arm.mode = "normal"
    b.reach(GuardStatus.HOLD, Code.RESUME_REQUIRED)
    assert quiet(b, 0.2) == 0
    np.testing.assert_array_equal(b.arm.commands[-1][1], held)
    count = len(b.arm.commands)
    assert b.call("guard/resume").success
    b.wait_for(lambda: len(b.arm.commands) > count, "commands after resume")
    np.testing.assert_allclose(b.arm.commands[count][1], held, atol=1e-6)  # anchored on the pose


def test_case_27_frozen_joint_states_are_a_fault(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    b.run_to([0.1, 0, 0, 0, 0, 0])
    b.arm.mode = "frozen"
    b.policy.target = UR5E.home + np.array([0.25, 0, 0, 0, 0, 0])
    b.reach(GuardStatus.FAULT, Code.FROZEN_INPUT)
    b.arm.mode = "normal"
    assert quiet(b, 0.3) == 0
    assert b.call("guard/resume").success
    b.reach(GuardStatus.ACTIVE)


def test_lost_heartbeats_hold(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    b.run_to([0.1, 0, 0, 0, 0, 0])
    b.policy.target = UR5E.home + np.array([0.4, 0, 0, 0, 0, 0])
    time.sleep(0.05)
    b.policy.alive = False
    b.reach(GuardStatus.HOLD, Code.HEARTBEAT_LOST)
    b.wait_for(lambda: b.sent[-1].policy_sequence == 0, "the holding command")
    last = b.sent[-1]
    np.testing.assert_array_equal(last.command, b.sent[-2].command)  # hold: the last one, once more
    time.sleep(0.4)
    b.policy.alive = True
    b.reach(GuardStatus.HOLD, Code.RESUME_REQUIRED)
    assert quiet(b, 0.2) == 0


def test_stop_and_resume_services(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    b.run_to([0.1, 0, 0, 0, 0, 0])
    assert b.call("guard/stop").success
    b.reach(GuardStatus.HOLD, Code.STOP_REQUESTED)
    b.policy.target = UR5E.home + np.array([0.2, 0, 0, 0, 0, 0])
    assert quiet(b, 0.3) == 0
    b.arm.q = b.arm.q + np.array([0, 0.05, 0, 0, 0, 0])  # jogged meanwhile
    jogged, count = b.arm.q.copy(), len(b.arm.commands)
    time.sleep(0.05)
    assert b.call("guard/resume").success
    b.wait_for(lambda: len(b.arm.commands) > count, "commands after resume")
    np.testing.assert_allclose(b.arm.commands[count][1], jogged, atol=1e-6)


def test_resume_is_refused_while_the_cause_lasts(bench):
    b = bench()
    b.arm.mode = "silent"
    b.reach(GuardStatus.WAITING)
    response = b.call("guard/resume")
    assert not response.success and "STALE_INPUT" in response.message


def test_case_22_bad_actions_are_dropped_and_five_in_a_row_are_a_fault(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    b.run_to([0.1, 0, 0, 0, 0, 0])
    b.policy.target = None
    wrong_joints = b.policy.message(UR5E.home, ["a", "b", "c", "d", "e", "f"])
    wrong_interface = b.policy.message(UR5E.home)
    wrong_interface.command_interface = "velocity"
    bad = [
        b.policy.message([np.nan, *UR5E.home[1:]]),
        b.policy.message([1e30, *UR5E.home[1:]]),
        b.policy.message(UR5E.home[:5]),
        wrong_joints,
        wrong_interface,
    ]
    for message in bad:
        before = b.statuses[-1].policy_frames_dropped
        message.header.stamp = b.client.node.get_clock().now().to_msg()
        b.policy.actions.publish(message)
        b.wait_for(lambda n=before: b.statuses[-1].policy_frames_dropped == n + 1, "a count")
    b.reach(GuardStatus.FAULT, Code.WRONG_INTERFACE)
    assert all(np.all(np.isfinite(c)) and c.shape == (6,) for _, c in b.arm.commands)


def test_actions_in_another_joint_order_reach_the_right_joints(bench):
    b = bench(prefix="left_")
    b.reach(GuardStatus.HOLD)
    shuffled = [3, 0, 5, 1, 4, 2]
    target = UR5E.home + np.array([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    names = [UR5E.joint_names[i] for i in shuffled]

    def step():
        b.policy.actions.publish(b.policy.message(target[shuffled], names))

    b.client.node.create_timer(0.02, step)
    b.wait_for(lambda: np.allclose(b.arm.q, target, atol=1e-6), "the target")
    assert b.sent[-1].joint_names[0] == "left_shoulder_pan_joint"


def test_case_28_a_publisher_with_unfit_qos_is_named(bench):
    b = bench()
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    b.client.node.create_publisher(PolicyAction, "policy/action", best_effort)
    b.wait_for(lambda: "RELIABILITY" in b.guard.text(), "an error that names the policy")
    assert "policy/action" in b.guard.text()


def test_case_28_joint_states_may_be_best_effort(bench):
    b = bench()
    b.arm.mode = "silent"
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = b.client.node.create_publisher(JointState, "joint_states", best_effort)

    def publish():
        message = JointState(name=list(UR5E.joint_names), position=UR5E.home.tolist())
        message.header.stamp = b.client.node.get_clock().now().to_msg()
        publisher.publish(message)

    b.client.node.create_timer(0.01, publish)
    b.reach(GuardStatus.HOLD)


def test_case_29_who_comes_late_still_learns_the_state(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    late = Client(b.client.node.get_namespace(), "late")
    try:
        messages = late.collect(GuardStatus, "guard/status", LATCHED)
        late.wait_for(lambda: messages, "the latched status", 5.0)
    finally:
        late.close()


def test_the_guard_is_the_only_publisher_to_the_controller(bench):
    b = bench()
    b.reach(GuardStatus.HOLD)
    assert b.client.node.count_publishers(COMMANDS) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_in_order(bench, number):
    b = bench()
    b.reach(GuardStatus.HOLD)
    b.guard.signal(number)
    assert b.guard.wait(5.0) == 0, b.guard.text()
    assert "Traceback" not in b.guard.text()


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"robot": "ur6"}, "ur5e"),
        ({"max_step_rad": 1.0}, "max_step_rad"),
        ({"command_interface": "torque"}, "velocity"),
        ({"heartbeat_timeout_s": -1.0}, "heartbeat_timeout_s"),
        ({"driver": "ur_foxy"}, "ur_humble"),
    ],
)
def test_a_bad_parameter_is_one_clear_error(tmp_path, parameters, word):
    process = Process(MODULE, "bad", tmp_path / "log", **parameters)
    assert process.wait(20.0) == 2
    assert word in process.text() and "Traceback" not in process.text()
