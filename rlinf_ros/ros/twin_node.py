"""twin_node: a simulated arm on the topics of its ROS 2 driver, as an OS process of its own.

    python -m rlinf_ros.ros.twin_node --ros-args -p robot:=ur5e -p joint_state_order:=alphabetical

One thread runs physics and publishing by the clock; a second one serves subscriptions and services.
rclpy's timers would cost several times more CPU at 500 Hz and slip: see docs/ros.md.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from array import array
from types import FrameType
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from rlinf_ros.contract.errors import ConfigError, RlinfError
from rlinf_ros.robot.description import RobotDescription, load_robot
from rlinf_ros.ros import qos
from rlinf_ros.ros.params import declare
from rlinf_ros.runtime.twin.arm import TwinArm
from rlinf_ros.runtime.twin.controllers import CommandError, TrajectoryPoint, Vector
from rlinf_ros.runtime.twin.orders import DRIVER, JOINT_ORDERS, joint_order

_MAX_CATCH_UP = 5  # cycles run at once after a late wake-up; what is later than that is dropped
_SPEED_SCALING_HZ = 100.0  # the driver's rate of speed_scaling_state_broadcaster


class TwinNode(Node):
    """Publishes joint states, tool pose and robot state; takes positions and trajectories."""

    def __init__(self) -> None:
        """Raises ConfigError for a parameter that does not fit the robot."""
        super().__init__("twin_node")
        robot = load_robot(declare(self, "robot", "ur5e", "robot name or path of its robot.yaml"))
        driver = robot.driver(
            declare(self, "driver", next(iter(robot.drivers)), "driver profile in robot.yaml")
        )
        prefix = declare(self, "tf_prefix", "", "prefix of joint and frame names, such as left_")
        orders = ", ".join([*JOINT_ORDERS, DRIVER])
        order = declare(self, "joint_state_order", "humble_13", f"order of joint_states: {orders}")
        rate_hz = declare(
            self,
            "publish_rate_hz",
            driver.update_rate_hz,
            "control cycles and joint states per second; default: the driver's rate",
        )
        if not 0.0 < rate_hz <= 10_000.0:
            raise ConfigError(f"{rate_hz:g} is out of range", where="parameter publish_rate_hz")
        self.cycle_s = 1.0 / rate_hz
        self._arm = TwinArm(robot, self.cycle_s, prefix=prefix, report=self._error)
        self._initial = self._declare_initial(robot)
        self._arm.reset(self._initial)
        names = joint_order(order, robot.joint_names, driver)
        self._columns = np.array([robot.joint_names.index(name) for name in names])
        self._lock = threading.Lock()  # the arm is used by both threads
        self._cycles, self._overruns, self._worst_late_s = 0, 0, 0.0
        self._speed_every = max(1, round(rate_hz / _SPEED_SCALING_HZ))
        self._state = JointState(name=[prefix + name for name in names])
        self._pose = PoseStamped()
        self._pose.header.frame_id = prefix + robot.frames.controller_base
        self._connect(driver.controllers["position"], driver.controllers["trajectory"])
        self.get_logger().info(
            f"{robot.name} ({driver.name}), {rate_hz:g} Hz, joint_states in order '{order}': "
            + ", ".join(self._state.name)
        )

    def _connect(self, position: str, trajectory: str) -> None:
        # as the driver's broadcasters: reliable; the robot's state latched
        self._joint_states = qos.advertise(self, JointState, "joint_states", qos.RECORD)
        self._tool_poses = qos.advertise(self, PoseStamped, "tcp_pose_broadcaster/pose", qos.NEWEST)
        self._speed = qos.advertise(
            self, Float64, "speed_scaling_state_broadcaster/speed_scaling", qos.NEWEST
        )
        self._running = qos.advertise(
            self, Bool, "io_and_status_controller/robot_program_running", qos.LATCHED
        )
        self._running.publish(Bool(data=True))
        commands, trajectories = f"{position}/commands", f"{trajectory}/joint_trajectory"
        qos.subscribe(self, Float64MultiArray, commands, self._on_command, qos.NEWEST)
        qos.subscribe(self, JointTrajectory, trajectories, self._on_trajectory, qos.NEWEST)
        self.create_service(Trigger, "twin/reset", self._on_reset)
        self.create_service(SetBool, "twin/use_trajectory_controller", self._on_switch)

    def run(self, stop: threading.Event) -> None:
        """Run control cycles in real time until `stop` is set."""
        due = time.monotonic()
        while not stop.is_set():
            due += self.cycle_s
            late_s = time.monotonic() - due
            if late_s < 0.0:
                time.sleep(-late_s)
                late_s = time.monotonic() - due
            missed = int(late_s / self.cycle_s)
            if missed:
                self._overruns += missed
                due += missed * self.cycle_s
            self._worst_late_s = max(self._worst_late_s, late_s)
            self._cycle(1 + min(missed, _MAX_CATCH_UP))

    def _cycle(self, count: int) -> None:
        arm, columns, state = self._arm, self._columns, self._state
        with self._lock:
            arm.step(count)
            stamp = self.get_clock().now().to_msg()
            vectors = arm.joint_position, arm.joint_velocity, arm.joint_torque
            pose = arm.tool_pose() if self._tool_poses.get_subscription_count() else None
        # array('d') passes the setters unchecked; a list would be checked element by element
        state.position, state.velocity, state.effort = (
            array("d", vector[columns].tobytes()) for vector in vectors
        )
        state.header.stamp = stamp
        self._joint_states.publish(state)
        if pose is not None:
            position, orientation = self._pose.pose.position, self._pose.pose.orientation
            position.x, position.y, position.z = pose[0].tolist()
            orientation.x, orientation.y, orientation.z, orientation.w = pose[1].tolist()
            self._pose.header.stamp = stamp
            self._tool_poses.publish(self._pose)
        if self._cycles % self._speed_every == 0:
            self._speed.publish(Float64(data=100.0))
        self._cycles += 1

    def summary(self) -> str:
        """How well the pace was kept."""
        return (
            f"{self._cycles} cycles, {self._overruns} overruns, "
            f"latest wake-up {self._worst_late_s * 1e3:.1f} ms"
        )

    def _error(self, text: str) -> None:
        self.get_logger().error(text)

    def _on_command(self, message: Float64MultiArray) -> None:
        try:
            with self._lock:
                self._arm.forward.receive(message.data)
        except CommandError as error:
            self.get_logger().warning(str(error), throttle_duration_sec=1.0)

    def _on_trajectory(self, message: JointTrajectory) -> None:
        start = Time.from_msg(message.header.stamp)
        start_in_s = 0.0  # a zero stamp means now
        if start.nanoseconds:
            start_in_s = (start.nanoseconds - self.get_clock().now().nanoseconds) * 1e-9
        points = [
            TrajectoryPoint(
                p.time_from_start.sec + p.time_from_start.nanosec * 1e-9, p.positions.tolist()
            )
            for p in message.points
        ]
        try:
            with self._lock:
                self._arm.receive_trajectory(message.joint_names, points, start_in_s)
        except CommandError as error:
            self.get_logger().error(str(error), throttle_duration_sec=1.0)

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with self._lock:
            self._arm.reset(self._initial)
        response.success = True
        response.message = "at the initial position; forward controller active"
        return response

    def _on_switch(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with self._lock:
            self._arm.switch("trajectory" if request.data else "position")
            response.message = f"active: {self._arm.active_controller}"
        response.success = True
        return response

    def _declare_initial(self, robot: RobotDescription) -> Vector:
        name, home = "initial_position_rad", [float(q) for q in robot.home]
        descriptor = ParameterDescriptor(
            description="joint angles at start and after twin/reset, in the order "
            f"{', '.join(robot.joint_names)}; default: home",
            read_only=True,
            dynamic_typing=True,
        )
        value: Any = self.declare_parameter(name, home, descriptor).value
        try:
            return np.array(value, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise ConfigError(
                f"{value!r} is no list of numbers", where=f"parameter {name}", allowed=str(home)
            ) from None


def main(args: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM. Returns 0, or 2 for a bad parameter, 1 when a thread failed."""
    stop, failures = threading.Event(), []

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = TwinNode()
    except (RlinfError, ImportError) as error:
        rclpy.try_shutdown()
        hint = "\n  fix: pip install mujoco" if isinstance(error, ImportError) else ""
        print(f"twin_node: {error}{hint}", file=sys.stderr)
        return 2
    executor = SingleThreadedExecutor()
    executor.add_node(node)

    def serve() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            pass
        except Exception as error:  # a dead thread must not leave an arm that ignores commands
            failures.append(error)
            stop.set()

    thread = threading.Thread(target=serve, name="twin_services", daemon=True)
    thread.start()
    node.run(stop)
    node.get_logger().info(node.summary())
    executor.shutdown(timeout_sec=1.0)
    thread.join(timeout=1.0)
    node.destroy_node()
    rclpy.try_shutdown()
    for failure in failures:
        print(f"twin_node: {type(failure).__name__}: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
