"""twin_node as its driver's clients see it: real processes, real DDS."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 (rclpy) is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from builtin_interfaces.msg import Duration
from geometry_msgs.msg import PoseStamped
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.runtime.twin.orders import JOINT_ORDERS
from tests.ros.harness import COMMANDS, LATCHED, UR5E, Client, Process

TWIN = "rlinf_ros.ros.twin_node"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    twin = Process(TWIN, "arm", tmp_path_factory.mktemp("twin") / "log", publish_rate_hz=100)
    yield twin
    twin.stop()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = Client("arm")
    yield client
    client.close()


class Arm:
    """The twin by its topics; positions by joint name, rad."""

    def __init__(self, client: Client, twin: Process) -> None:
        self.client, self.twin = client, twin
        self.states = client.collect(JointState, "joint_states", qos_profile_sensor_data)
        self.commands = client.node.create_publisher(Float64MultiArray, COMMANDS, 1)
        topic = "scaled_joint_trajectory_controller/joint_trajectory"
        self.trajectories = client.node.create_publisher(JointTrajectory, topic, 1)
        for publisher in (self.commands, self.trajectories):
            self.until(publisher.get_subscription_count, f"subscription of {publisher.topic_name}")

    def until(self, condition, what: str) -> None:
        self.client.wait_for(condition, what, 30.0, [self.twin])

    def switch(self, interface: str) -> None:
        request = SetBool.Request(data=interface == "trajectory")
        assert self.client.call(SetBool, "twin/use_trajectory_controller", request).success

    def reset(self) -> None:
        assert self.client.call(Trigger, "twin/reset", Trigger.Request()).success

    def positions(self) -> dict[str, float]:
        self.states.clear()
        self.until(lambda: self.states, "joint states")
        return dict(zip(self.states[0].name, self.states[0].position, strict=True))

    def reaches(self, joint: str, value: float) -> None:
        self.until(lambda: abs(self.positions()[joint] - value) < 2e-3, f"{joint} at {value}")

    def command(self, values: list[float]) -> None:
        self.commands.publish(Float64MultiArray(data=values))

    def home_with(self, **changes: float) -> list[float]:
        """Home in controller order, with some joints changed by name."""
        wanted = dict(zip(UR5E.joint_names, UR5E.home.tolist(), strict=True)) | changes
        return [wanted[name] for name in UR5E.joint_names]


@pytest.fixture
def arm(client: Client, twin: Process) -> Iterator[Arm]:
    arm = Arm(client, twin)
    arm.reset()
    arm.reaches("elbow_joint", math.pi / 2)
    yield arm
    for subscription in list(client.node.subscriptions):
        client.node.destroy_subscription(subscription)
    client.node.destroy_publisher(arm.commands)
    client.node.destroy_publisher(arm.trajectories)


def test_publishes_in_each_order(tmp_path: Path) -> None:
    start = [0.1, -1.2, 1.3, -1.4, -1.5, 0.6]  # no two joints alike
    wanted = dict(zip(UR5E.joint_names, start, strict=True))
    prefixes = {"humble_left": "left_", "humble_right": "right_"}
    client = Client("")
    states = {
        name: client.collect(JointState, f"/{name}/joint_states", qos_profile_sensor_data)
        for name in JOINT_ORDERS
    }
    twins = [
        Process(
            TWIN,
            name,
            tmp_path / name,
            joint_state_order=name,
            publish_rate_hz=20,
            initial_position_rad=start,
            tf_prefix=prefixes.get(name, "''"),
        )
        for name in JOINT_ORDERS
    ]
    try:
        client.wait_for(lambda: all(states.values()), "all twins", 90.0, twins)
    finally:
        for twin in twins:
            twin.stop()
        client.close()
    for name, order in JOINT_ORDERS.items():
        prefix, state = prefixes.get(name, ""), states[name][0]
        assert list(state.name) == [prefix + joint for joint in order]
        for joint, value in zip(state.name, state.position, strict=True):
            assert value == pytest.approx(wanted[joint.removeprefix(prefix)], abs=1e-6)
        assert len(state.velocity) == len(state.effort) == 6


def test_default_order_is_shuffled_and_stamps_are_now(arm: Arm) -> None:
    assert list(arm.positions()) == list(JOINT_ORDERS["humble_13"]) != list(UR5E.joint_names)
    stamp = arm.states[-1].header.stamp
    assert abs(stamp.sec + stamp.nanosec * 1e-9 - time.time()) < 5.0


def test_command_moves_joints_by_name(arm: Arm) -> None:
    arm.command(arm.home_with(wrist_3_joint=0.4))
    arm.reaches("wrist_3_joint", 0.4)
    for name, value in arm.positions().items():
        expected = 0.4 if name == "wrist_3_joint" else UR5E.home[UR5E.joint_names.index(name)]
        assert value == pytest.approx(expected, abs=5e-3)


def test_holds_without_command(arm: Arm) -> None:
    before = arm.positions()
    time.sleep(0.5)
    assert arm.positions() == pytest.approx(before, abs=1e-6)


def test_last_command_is_kept(arm: Arm) -> None:
    arm.command(arm.home_with(shoulder_pan_joint=0.2))
    arm.reaches("shoulder_pan_joint", 0.2)
    time.sleep(0.5)  # silence is no stop: a forward controller has no time-out
    assert arm.positions()["shoulder_pan_joint"] == pytest.approx(0.2, abs=2e-3)


def test_wrong_length_deactivates_until_reset(arm: Arm, twin: Process) -> None:
    arm.command([0.0] * 5)
    arm.until(lambda: "command size (5)" in twin.text(), "the controller's error")
    before = arm.positions()
    for _ in range(5):
        arm.command(arm.home_with(wrist_3_joint=0.4))
        time.sleep(0.1)
    assert arm.positions() == pytest.approx(before, abs=1e-3)
    assert "not active" in twin.text()
    arm.reset()
    arm.command(arm.home_with(wrist_3_joint=0.4))
    arm.reaches("wrist_3_joint", 0.4)


def test_nan_is_dropped_with_a_warning(arm: Arm, twin: Process) -> None:
    arm.command(arm.home_with(wrist_3_joint=0.3))
    arm.reaches("wrist_3_joint", 0.3)
    for _ in range(5):
        arm.command(arm.home_with(wrist_3_joint=math.nan))
        time.sleep(0.05)
    arm.until(lambda: "not finite" in twin.text(), "the warning")
    assert arm.positions()["wrist_3_joint"] == pytest.approx(0.3, abs=2e-3)
    arm.command(arm.home_with(wrist_3_joint=0.1))  # still active
    arm.reaches("wrist_3_joint", 0.1)


def trajectory(**positions: float) -> JointTrajectory:
    """One point, due after 0.5 s, with the joints as given."""
    point = JointTrajectoryPoint(
        positions=list(positions.values()), time_from_start=Duration(nanosec=500_000_000)
    )
    return JointTrajectory(joint_names=list(positions), points=[point])


def test_trajectory_goes_by_name_and_excludes_forward_commands(arm: Arm) -> None:
    wanted = dict(zip(UR5E.joint_names, UR5E.home.tolist(), strict=True))
    wanted |= {"elbow_joint": 1.2, "wrist_1_joint": -1.1}
    shuffled = {name: wanted[name] for name in sorted(wanted)}
    arm.trajectories.publish(trajectory(**shuffled))  # not active yet: without effect
    time.sleep(1.0)
    assert arm.positions()["elbow_joint"] == pytest.approx(math.pi / 2, abs=1e-3)
    arm.switch("trajectory")
    arm.trajectories.publish(trajectory(**shuffled))
    arm.reaches("elbow_joint", 1.2)
    arm.reaches("wrist_1_joint", -1.1)
    arm.command(arm.home_with(elbow_joint=1.6))
    time.sleep(0.5)
    assert arm.positions() == pytest.approx(wanted, abs=5e-3)
    arm.switch("position")
    arm.command(arm.home_with(elbow_joint=1.6))
    arm.reaches("elbow_joint", 1.6)


def test_trajectory_with_missing_or_unknown_joint_is_rejected(arm: Arm, twin: Process) -> None:
    arm.switch("trajectory")
    wanted = dict(zip(UR5E.joint_names, [0.0] * 6, strict=True))
    unknown = wanted | {"joint_7": 0.0}
    unknown.pop("elbow_joint")
    for bad, reason in (({"elbow_joint": 0.0}, "1 joints"), (unknown, "'elbow_joint' is missing")):
        time.sleep(1.1)  # the error is throttled to one a second
        arm.trajectories.publish(trajectory(**bad))
        arm.until(lambda reason=reason: reason in twin.text(), f"the error '{reason}'")
    assert arm.positions()["elbow_joint"] == pytest.approx(math.pi / 2, abs=1e-3)


def test_late_joiner_gets_the_latched_state(arm: Arm) -> None:
    late = Client("arm")  # a participant that did not exist when the twin published
    try:
        topic = "io_and_status_controller/robot_program_running"
        running = late.collect(Bool, topic, LATCHED)
        topic = "speed_scaling_state_broadcaster/speed_scaling"
        speed = late.collect(Float64, topic, qos_profile_sensor_data)
        late.wait_for(lambda: running and speed, "latched state and speed scaling", 20.0)
        assert running[0].data is True
        assert speed[0].data == 100.0  # percent
    finally:
        late.close()


def test_tool_pose_is_given_in_the_controllers_base(arm: Arm, client: Client) -> None:
    arm.command([0.3, -1.2, 1.5, -1.9, -1.4, 0.7])
    arm.reaches("shoulder_pan_joint", 0.3)
    arm.reaches("wrist_3_joint", 0.7)
    time.sleep(1.0)
    poses = client.collect(PoseStamped, "tcp_pose_broadcaster/pose", qos_profile_sensor_data)
    arm.until(lambda: poses, "a tool pose")
    q = arm.positions()
    poses.clear()
    arm.until(lambda: poses, "a newer tool pose")
    measured = np.array([q[name] for name in UR5E.joint_names])
    position, quat = Kinematics.from_robot(UR5E, base="base").forward_pose(measured)
    pose = poses[0]
    assert pose.header.frame_id == "base"
    p, o = pose.pose.position, pose.pose.orientation
    assert np.array([p.x, p.y, p.z]) == pytest.approx(position, abs=1e-3)
    assert abs(np.array([o.x, o.y, o.z, o.w]) @ quat) == pytest.approx(1.0, abs=1e-5)
    # the maker's figures for this pose
    assert position == pytest.approx([-0.558621, -0.330054, 0.347516], abs=5e-3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ends_cleanly_on_a_signal(client: Client, tmp_path: Path, number: int) -> None:
    twin = Process(TWIN, "ending", tmp_path / "log", publish_rate_hz=50)
    try:
        client.wait_for(lambda: "joint_states in order" in twin.text(), "the twin", 60.0, [twin])
        twin.signal(number)
        assert twin.wait(10.0) == 0
        assert "overruns" in twin.text()
        assert "Traceback" not in twin.text()
    finally:
        twin.stop()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"joint_state_order": "humbel_13"}, "did you mean 'humble_13'?"),
        ({"robot": "ur6e"}, "unknown robot 'ur6e'"),
        ({"driver": "ur_foxy"}, "unknown driver profile 'ur_foxy'"),
        ({"publish_rate_hz": 333.0}, "whole number of simulation steps"),
        ({"publish_rate_hz": -1}, "out of range"),
        ({"initial_position_rad": [0.0, 0.0]}, "2 values for 6 joints"),
        (
            {"initial_position_rad": [0.0, 0.0, 9.0, 0.0, 0.0, 0.0]},
            "out of range for 'elbow_joint'",
        ),
    ],
)
def test_bad_parameter_is_one_clear_error(
    tmp_path: Path, parameters: dict[str, object], message: str
) -> None:
    twin = Process(TWIN, "bad", tmp_path / "log", **parameters)
    try:
        assert twin.wait(60.0) == 2
    finally:
        twin.stop()
    assert message in twin.text()
    assert "Traceback" not in twin.text()
