"""The ROS side of trials: waits with a reason, moves the twin, runs one goal and records it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import rclpy
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import PoseStamped
from rclpy.action.client import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros.pipeline.joints import JointReader
from rlinf_ros.robot.description import Driver, RobotDescription
from rlinf_ros.ros import qos
from rlinf_ros.ros.messages import (
    GuardStatus,
    PolicyAction,
    PolicyObservation,
    PolicyStatus,
    RunPolicy,
    SentCommand,
)
from rlinf_ros.runtime.trials.goals import TrialGoal, Vector
from rlinf_ros.runtime.trials.recording import Action, Command, Observation, Recording, State

_ANSWER_S = 5.0  # longest wait for the answer of a service, or for a goal to be accepted
_RESUME_PERIOD_S = 1.0
_STATES_BEFORE = 50
_MOVE_RAD_S = 1.0  # mean speed of a move to the start; its peak is 1.875 times that
_AT_START_RAD, _AT_REST_RAD_S = 2e-3, 5e-3
# Every joint state of a run is wanted; the drivers' publishers are reliable.
_EVERY_STATE = QoSProfile(
    history=HistoryPolicy.KEEP_LAST, depth=500, reliability=ReliabilityPolicy.RELIABLE
)
_SWITCH = "twin/use_trajectory_controller"


class TrialError(RlinfError):
    """A trial can't be run: who waits for whom, and what was last heard."""


class TrialClient:
    """Talks to policy, guard and twin in one namespace; spins its own node while it waits."""

    def __init__(
        self, robot: RobotDescription, driver: Driver, prefix: str = "", namespace: str = ""
    ) -> None:
        # SIGINT is Python's KeyboardInterrupt here: rclpy's handler would close the context first
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self._robot, self._prefix = robot, prefix
        self._reader = JointReader(robot.joint_names, prefix)
        self._node = node = Node("reach_trials", namespace=namespace)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._recording = Recording()
        self._status: Any = None
        self._guard: Any = None
        self._states_topic = driver.joint_states_topic.lstrip("/")
        qos.subscribe(node, JointState, self._states_topic, self._on_state, _EVERY_STATE)
        qos.subscribe(
            node, PolicyObservation, "policy/observation", self._on_observation, qos.RECORD
        )
        qos.subscribe(node, PolicyAction, "policy/action", self._on_action, qos.RECORD)
        qos.subscribe(node, SentCommand, "guard/sent_command", self._on_command, qos.RECORD)
        qos.subscribe(node, PolicyStatus, "policy/status", self._on_status, qos.NEWEST)
        qos.subscribe(node, GuardStatus, "guard/status", self._on_guard, qos.LATCHED)
        self._run: Any = ActionClient(node, RunPolicy, "policy/run")
        self._switch: Any = node.create_client(SetBool, _SWITCH)
        self._resume: Any = node.create_client(Trigger, "guard/resume")
        topic = driver.command_topic("trajectory").lstrip("/")
        self._trajectory = qos.advertise(node, JointTrajectory, topic, qos.NEWEST)

    def close(self) -> None:
        """Take the node down."""
        self._executor.shutdown(timeout_sec=1.0)
        self._node.destroy_node()
        rclpy.try_shutdown()

    # ---- waiting --------------------------------------------------------------------------------

    def wait_ready(self, timeout_s: float) -> PolicyStatus:
        """Wait until joint states come, the policy is idle and the guard lets a run start.

        A guard that asks for a resume after a stop gets it: these trials are the operator here.
        """
        self._status = None  # an old one says nothing of now
        self._recording = Recording()
        next_resume = 0.0

        def ready() -> bool:
            nonlocal next_resume
            if self._guard is not None and self._guard_waits() and time.monotonic() > next_resume:
                next_resume = time.monotonic() + _RESUME_PERIOD_S
                self._resume.call_async(Trigger.Request())
            return not self._missing()

        self._wait(ready, timeout_s, lambda: "; ".join(self._missing()))
        assert self._status is not None
        return self._status

    def _guard_waits(self) -> bool:
        return self._guard.state == GuardStatus.FAULT or self._guard.reason.name in (
            "RESUME_REQUIRED",
            "STOP_REQUESTED",
            "HEARTBEAT_LOST",
        )

    def _missing(self) -> list[str]:
        missing = []
        if not self._recording.states:
            missing.append(f"no joint states on {self._name(self._states_topic)}")
        if self._guard is None:
            missing.append(f"nothing from guard_node on {self._name('guard/status')}")
        elif self._guard.state == GuardStatus.WAITING or self._guard_waits():
            missing.append(f"guard_node is not ready: {_why(self._guard.reason)}")
        if self._status is None:
            missing.append(f"nothing from policy_node on {self._name('policy/status')}")
        elif self._status.state != PolicyStatus.IDLE:
            missing.append(f"policy_node is not idle: {_why(self._status.reason)}")
        elif not self._run.server_is_ready():
            missing.append(f"no action {self._name('policy/run')}")
        return missing

    def _name(self, topic: str) -> str:
        return self._node.resolve_topic_name(topic)

    def _wait(
        self, condition: Callable[[], Any], timeout_s: float, what: Callable[[], str]
    ) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise TrialError(f"waited {timeout_s:g} s: {what()}")
            self._executor.spin_once(timeout_sec=0.1)

    def _result(self, future: Any, timeout_s: float, what: str) -> Any:
        self._wait(future.done, timeout_s, lambda: what)
        return future.result()

    # ---- moving and running ---------------------------------------------------------------------

    def move_to(self, target: Vector, timeout_s: float) -> None:
        """Bring the twin to joint positions (J,) in robot order, smoothly in joint space."""
        if not self._switch.wait_for_service(timeout_sec=_ANSWER_S):
            raise TrialError(
                f"no service {self._name(_SWITCH)}: only the twin can be brought to a start; for "
                "hardware move the arm yourself and use --keep-pose"
            )
        self._use_trajectories(True)
        try:
            self._wait(lambda: self._recording.states, timeout_s, lambda: "no joint states")
            start = self.joint_position(self._recording.states[-1])
            duration_s = max(0.3, float(np.max(np.abs(target - start))) / _MOVE_RAD_S)
            self._trajectory.publish(self._path(start, target, duration_s))
            self._wait(
                lambda: self._is_at(target),
                timeout_s + duration_s,
                lambda: f"the arm does not come to its start {np.round(target, 3).tolist()}",
            )
        finally:
            self._use_trajectories(False)

    def _use_trajectories(self, on: bool) -> None:
        future = self._switch.call_async(SetBool.Request(data=on))
        self._result(future, _ANSWER_S, f"no answer of {self._name(_SWITCH)}")

    def _path(self, start: Vector, target: Vector, duration_s: float) -> JointTrajectory:
        """Points on the minimum-jerk profile 10 s³ - 15 s⁴ + 6 s⁵ (Flash and Hogan 1985)."""
        points = []
        for s in np.linspace(0.0, 1.0, 21)[1:]:
            share = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
            due = round(float(s) * duration_s * 1e9)
            points.append(
                JointTrajectoryPoint(
                    positions=(start + share * (target - start)).tolist(),
                    time_from_start=Duration(sec=due // 10**9, nanosec=due % 10**9),
                )
            )
        names = [self._prefix + name for name in self._robot.joint_names]
        return JointTrajectory(joint_names=names, points=points)

    def _is_at(self, target: Vector) -> bool:
        state = self._recording.states[-1]
        at_rest = np.max(np.abs(state.velocity[self._reader.index(state.names)])) < _AT_REST_RAD_S
        off = np.max(np.abs(self.joint_position(state) - target))
        return bool(at_rest and off < _AT_START_RAD)

    def joint_position(self, state: State) -> Vector:
        """Joint positions (J,) of a recorded state in the robot's order."""
        return self._reader.read(state.names, state.position.tolist(), "position")

    def run_goal(
        self,
        goal: TrialGoal,
        *,
        duration_s: float,
        position_tolerance_m: float,
        orientation_tolerance_rad: float,
        stop_on_success: bool,
    ) -> tuple[Any, Recording]:
        """Send the goal, wait for its result; what was heard in between, up to a state after it."""
        target = PoseStamped()
        target.header.frame_id = self._prefix + self._robot.frames.base
        target.header.stamp = self._node.get_clock().now().to_msg()
        p, q = target.pose.position, target.pose.orientation
        p.x, p.y, p.z = goal.position.tolist()
        q.x, q.y, q.z, q.w = goal.quat_xyzw.tolist()
        # the first step may see a state from just before the goal
        recording = Recording(states=self._recording.states[-_STATES_BEFORE:])
        self._recording = recording
        request = RunPolicy.Goal(
            target=target,
            duration_s=duration_s,
            position_tolerance_m=position_tolerance_m,
            orientation_tolerance_rad=orientation_tolerance_rad,
            stop_on_success=stop_on_success,
        )
        name = self._name("policy/run")
        future = self._run.send_goal_async(request)
        handle = self._result(future, _ANSWER_S, f"no answer of {name} to the goal")
        if not handle.accepted:
            raise TrialError(f"{name} rejected the goal of seed {goal.seed}")
        result = self._result(
            handle.get_result_async(),
            duration_s + 10.0,
            f"no result of {name}, {duration_s:g} s after a goal of {duration_s:g} s",
        ).result
        if result.reason.name == "INVALID_GOAL":
            raise TrialError(f"goal of seed {goal.seed}: {_why(result.reason)}")
        ended_ns = self._node.get_clock().now().nanoseconds
        self._wait(
            lambda: recording.states[-1:] and recording.states[-1].stamp_ns >= ended_ns,
            _ANSWER_S,
            lambda: f"no joint state stamped after the run on {self._name(self._states_topic)}",
        )
        self._recording = Recording()
        return result, recording

    # ---- recording ------------------------------------------------------------------------------

    def _on_state(self, message: JointState) -> None:
        position = np.array(message.position)
        velocity = np.array(message.velocity or [np.nan] * len(position))
        stamp = _nanoseconds(message.header.stamp)
        self._recording.states.append(State(stamp, tuple(message.name), position, velocity))

    def _on_observation(self, message: PolicyObservation) -> None:
        data = np.array(message.data, dtype=np.float32)
        stamp = _nanoseconds(message.header.stamp)
        self._recording.observations.append(Observation(stamp, message.sequence, data))

    def _on_action(self, message: PolicyAction) -> None:
        action = Action(_nanoseconds(message.header.stamp), message.sequence)
        self._recording.actions.append(action)

    def _on_command(self, message: SentCommand) -> None:
        values = self._reader.read(message.joint_names, message.command.tolist(), "command")
        stamp = _nanoseconds(message.header.stamp)
        self._recording.commands.append(Command(stamp, message.policy_sequence, values))

    def _on_status(self, message: PolicyStatus) -> None:
        self._status = message

    def _on_guard(self, message: GuardStatus) -> None:
        self._guard = message


def _nanoseconds(stamp: Any) -> int:
    return stamp.sec * 10**9 + stamp.nanosec


def _why(reason: Any) -> str:
    text = f"{reason.name}: {reason.text}" if reason.text else reason.name
    return f"{text} ({reason.remedy})" if reason.remedy else text
