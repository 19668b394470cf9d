"""twin_node as its driver's clients see it: real processes, real DDS."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 (rclpy) is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

import rclpy
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import PoseStamped
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.robot.description import load_robot
from rlinf_ros.runtime.twin.orders import JOINT_ORDERS

ROOT = Path(__file__).resolve().parents[2]
DOMAIN = 20 + os.getpid() % 70  # apart from other test runs on this machine
UR5E = load_robot("ur5e")
LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


class Twin:
    """One twin_node process."""

    def __init__(self, namespace: str, log: Path, **parameters: object) -> None:
        pairs = [("-p", f"{name}:={value}") for name, value in parameters.items()]
        self.log = log
        env = os.environ | {
            "ROS_DOMAIN_ID": str(DOMAIN),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        command = [sys.executable, "-m", "rlinf_ros.ros.twin_node", "--ros-args"]
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [*command, "-r", f"__ns:=/{namespace}", *sum(pairs, ())],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=env,
            )

    def text(self) -> str:
        return self.log.read_text()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(timeout=5.0)


class Client:
    """A node on the test's domain, spun by the test itself."""

    def __init__(self) -> None:
        self.context = Context()
        rclpy.init(context=self.context, domain_id=DOMAIN)
        self.node = Node("test_client", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
            self.executor.spin_once(timeout_sec=0.05)

    def spin(self, duration_s: float) -> None:
        end = time.monotonic() + duration_s
        while time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.05)

    def call(self, kind: type, name: str, request: object) -> object:
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f"service {name}")
        future = client.call_async(request)
        self.until(future.done, f"answer of {name}")
        self.node.destroy_client(client)
        return future.result()

    def close(self) -> None:
        self.executor.shutdown(timeout_sec=1.0)
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)


@pytest.fixture(scope="module", autouse=True)
def localhost_only() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield


@pytest.fixture(scope="module")
def client(localhost_only: None) -> Iterator[Client]:
    client = Client()
    yield client
    client.close()


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    twin = Twin("arm", tmp_path_factory.mktemp("twin") / "log", publish_rate_hz=100)
    yield twin
    twin.stop()


class Arm:
    """The twin in namespace /arm by its topics; positions by joint name, rad."""

    def __init__(self, client: Client) -> None:
        self.client, self.states = client, []
        node = client.node
        node.create_subscription(
            JointState, "/arm/joint_states", self.states.append, qos_profile_sensor_data
        )
        self.commands = node.create_publisher(
            Float64MultiArray, "/arm/forward_position_controller/commands", 1
        )
        self.trajectories = node.create_publisher(
            JointTrajectory, "/arm/scaled_joint_trajectory_controller/joint_trajectory", 1
        )
        client.until(self.commands.get_subscription_count, "the twin's command subscription")
        client.until(self.trajectories.get_subscription_count, "its trajectory subscription")

    def positions(self) -> dict[str, float]:
        self.states.clear()
        self.client.until(lambda: self.states, "joint states")
        return dict(zip(self.states[-1].name, self.states[-1].position, strict=True))

    def reaches(self, joint: str, value: float) -> None:
        self.client.until(
            lambda: abs(self.positions()[joint] - value) < 2e-3, f"{joint} at {value}"
        )

    def command(self, values: list[float]) -> None:
        self.commands.publish(Float64MultiArray(data=values))

    def home_with(self, **changes: float) -> list[float]:
        """Home in controller order, with some joints changed by name."""
        wanted = dict(zip(UR5E.joint_names, UR5E.home.tolist(), strict=True)) | changes
        return [wanted[name] for name in UR5E.joint_names]


@pytest.fixture
def arm(client: Client, twin: Twin) -> Iterator[Arm]:
    arm = Arm(client)
    assert client.call(Trigger, "/arm/twin/reset", Trigger.Request()).success
    arm.reaches("elbow_joint", math.pi / 2)
    yield arm
    for entity in list(client.node.subscriptions):
        client.node.destroy_subscription(entity)
    client.node.destroy_publisher(arm.commands)
    client.node.destroy_publisher(arm.trajectories)


def test_publishes_in_each_order(client: Client, tmp_path: Path) -> None:
    start = [0.1, -1.2, 1.3, -1.4, -1.5, 0.6]  # no two joints alike
    wanted = dict(zip(UR5E.joint_names, start, strict=True))
    prefixes = {"humble_left": "left_", "humble_right": "right_"}
    twins, states = [], {}
    try:
        for name in JOINT_ORDERS:
            twins.append(
                Twin(
                    name,
                    tmp_path / name,
                    joint_state_order=name,
                    publish_rate_hz=20,
                    initial_position_rad=start,
                    tf_prefix=prefixes.get(name, "''"),
                )
            )
            client.node.create_subscription(
                JointState,
                f"/{name}/joint_states",
                lambda message, name=name: states.setdefault(name, message),
                qos_profile_sensor_data,
            )
        client.until(lambda: len(states) == len(JOINT_ORDERS), "all twins", timeout_s=90.0)
    finally:
        for twin in twins:
            twin.stop()
    for name, order in JOINT_ORDERS.items():
        prefix = prefixes.get(name, "")
        assert list(states[name].name) == [prefix + joint for joint in order]
        for joint, value in zip(states[name].name, states[name].position, strict=True):
            assert value == pytest.approx(wanted[joint.removeprefix(prefix)], abs=1e-6)
        assert len(states[name].velocity) == len(states[name].effort) == 6


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


def test_holds_without_command(arm: Arm, client: Client) -> None:
    before = arm.positions()
    client.spin(0.5)
    assert arm.positions() == pytest.approx(before, abs=1e-6)


def test_last_command_is_kept(arm: Arm, client: Client) -> None:
    arm.command(arm.home_with(shoulder_pan_joint=0.2))
    arm.reaches("shoulder_pan_joint", 0.2)
    client.spin(0.5)  # silence is no stop: a forward controller has no time-out
    assert arm.positions()["shoulder_pan_joint"] == pytest.approx(0.2, abs=2e-3)


def test_wrong_length_deactivates_until_reset(arm: Arm, twin: Twin, client: Client) -> None:
    arm.command([0.0] * 5)
    client.until(lambda: "command size (5)" in twin.text(), "the controller's error")
    before = arm.positions()
    for _ in range(5):
        arm.command(arm.home_with(wrist_3_joint=0.4))
        client.spin(0.1)
    assert arm.positions() == pytest.approx(before, abs=1e-3)
    assert "not active" in twin.text()
    assert client.call(Trigger, "/arm/twin/reset", Trigger.Request()).success
    arm.command(arm.home_with(wrist_3_joint=0.4))
    arm.reaches("wrist_3_joint", 0.4)


def test_nan_is_dropped_with_a_warning(arm: Arm, twin: Twin, client: Client) -> None:
    arm.command(arm.home_with(wrist_3_joint=0.3))
    arm.reaches("wrist_3_joint", 0.3)
    for _ in range(5):
        arm.command(arm.home_with(wrist_3_joint=math.nan))
        client.spin(0.05)
    client.until(lambda: "not finite" in twin.text(), "the warning")
    assert arm.positions()["wrist_3_joint"] == pytest.approx(0.3, abs=2e-3)
    arm.command(arm.home_with(wrist_3_joint=0.1))  # still active
    arm.reaches("wrist_3_joint", 0.1)


def trajectory(**positions: float) -> JointTrajectory:
    """One point, due after 0.5 s, with the joints as given."""
    point = JointTrajectoryPoint(
        positions=list(positions.values()), time_from_start=Duration(nanosec=500_000_000)
    )
    return JointTrajectory(joint_names=list(positions), points=[point])


def test_trajectory_goes_by_name_and_excludes_forward_commands(arm: Arm, client: Client) -> None:
    wanted = dict(zip(UR5E.joint_names, UR5E.home.tolist(), strict=True))
    wanted |= {"elbow_joint": 1.2, "wrist_1_joint": -1.1}
    shuffled = {name: wanted[name] for name in sorted(wanted)}
    arm.trajectories.publish(trajectory(**shuffled))  # not active yet: without effect
    client.spin(1.0)
    assert arm.positions()["elbow_joint"] == pytest.approx(math.pi / 2, abs=1e-3)
    switch = "/arm/twin/use_trajectory_controller"
    assert client.call(SetBool, switch, SetBool.Request(data=True)).success
    arm.trajectories.publish(trajectory(**shuffled))
    arm.reaches("elbow_joint", 1.2)
    arm.reaches("wrist_1_joint", -1.1)
    arm.command(arm.home_with(elbow_joint=1.6))
    client.spin(0.5)
    assert arm.positions() == pytest.approx(wanted, abs=5e-3)
    assert client.call(SetBool, switch, SetBool.Request(data=False)).success
    arm.command(arm.home_with(elbow_joint=1.6))
    arm.reaches("elbow_joint", 1.6)


def test_trajectory_with_missing_or_unknown_joint_is_rejected(
    arm: Arm, twin: Twin, client: Client
) -> None:
    request = SetBool.Request(data=True)
    assert client.call(SetBool, "/arm/twin/use_trajectory_controller", request).success
    wanted = dict(zip(UR5E.joint_names, [0.0] * 6, strict=True))
    unknown = wanted | {"joint_7": 0.0}
    unknown.pop("elbow_joint")
    for bad, reason in (({"elbow_joint": 0.0}, "1 joints"), (unknown, "'elbow_joint' is missing")):
        client.spin(1.1)  # the error is throttled to one a second
        arm.trajectories.publish(trajectory(**bad))
        client.until(lambda reason=reason: reason in twin.text(), f"the error '{reason}'")
    assert arm.positions()["elbow_joint"] == pytest.approx(math.pi / 2, abs=1e-3)


def test_late_joiner_gets_the_latched_state(arm: Arm) -> None:
    late = Client()  # a participant that did not exist when the twin published
    try:
        running, speed = [], []
        topic = "/arm/io_and_status_controller/robot_program_running"
        late.node.create_subscription(Bool, topic, running.append, LATCHED)
        topic = "/arm/speed_scaling_state_broadcaster/speed_scaling"
        late.node.create_subscription(Float64, topic, speed.append, qos_profile_sensor_data)
        late.until(lambda: running and speed, "latched state and speed scaling")
        assert running[0].data is True
        assert speed[0].data == 100.0  # percent
    finally:
        late.close()


def test_tool_pose_is_given_in_the_controllers_base(arm: Arm, client: Client) -> None:
    arm.command([0.3, -1.2, 1.5, -1.9, -1.4, 0.7])
    arm.reaches("shoulder_pan_joint", 0.3)
    arm.reaches("wrist_3_joint", 0.7)
    client.spin(0.5)
    poses: list[PoseStamped] = []
    client.node.create_subscription(
        PoseStamped, "/arm/tcp_pose_broadcaster/pose", poses.append, qos_profile_sensor_data
    )
    client.until(lambda: poses, "a tool pose")
    q = arm.positions()
    poses.clear()
    client.until(lambda: poses, "a newer tool pose")
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
    twin = Twin("ending", tmp_path / "log", publish_rate_hz=50)
    try:
        client.until(lambda: "joint_states in order" in twin.text(), "the twin")
        twin.process.send_signal(number)
        assert twin.process.wait(timeout=10.0) == 0
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
    twin = Twin("bad", tmp_path / "log", **parameters)
    try:
        assert twin.process.wait(timeout=60.0) == 2
    finally:
        twin.stop()
    assert message in twin.text()
    assert "Traceback" not in twin.text()
