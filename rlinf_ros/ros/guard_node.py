"""guard_node: the last word before the controller, as an OS process of its own.

    python -m rlinf_ros.ros.guard_node --ros-args -p robot:=ur5e

The only publisher to the arm's controller. Bounds each of the policy's targets, starts each run from
the measured pose, and holds when joint states or the policy's heartbeats stop, whatever becomes of
the policy's process. What it decides, and why, is in rlinf_ros.safety.governor.
"""

from __future__ import annotations

import dataclasses
import sys
import traceback
from typing import cast

from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from ..contract.errors import ConfigError
from ..robot.description import load_robot
from ..safety.governor import Decision, Governor
from ..safety.judge import Interface
from ..safety.limits import SafetyLimits
from ..safety.reason import Code, Reason
from . import qos
from .convert import Commands, JointStates, reason_message
from .messages import GuardStatus, PolicyAction, PolicyStatus, SentCommand
from .node_main import run
from .params import declare

_STATUS_PERIOD_S = 0.1
_LIMIT_HELP = {
    "velocity_scale": "share of the robot's joint velocity limits that may be used, 0..1",
    "position_margin_rad": "distance kept from the robot's position limits",
    "max_step_rad": "largest step between two commands",
    "max_tracking_error_rad": "largest distance between command and measured position",
    "max_start_distance_rad": "largest distance of a run's first target from the measured position",
    "max_excess_rad": "a target further beyond the position limits is dropped, not clipped",
    "ramp_velocity_rad_s": "speed at which the gap to a run's first target closes",
    "input_max_age_s": "oldest usable joint state",
    "frozen_window_s": "joint states without any change while commands move: a fault after this time",
    "action_max_age_s": "oldest joint state that a usable action may come from",
    "action_timeout_s": "without an action for this time, a living policy has ended its run",
    "heartbeat_timeout_s": "without a sign of the policy for this time, hold",
    "hold_grace_s": "an interruption that is shorter needs no resume",
    "max_dropped_in_row": "unusable actions in a row before a fault",
}


class GuardNode(Node):
    """Parameters, topics and services around a Governor."""

    def __init__(self) -> None:
        """Raises ConfigError for a parameter that does not fit the robot."""
        super().__init__("guard_node")
        self.finished: int | None = None
        robot = load_robot(declare(self, "robot", "ur5e", "robot name or path of its robot.yaml"))
        driver = robot.driver(
            declare(self, "driver", next(iter(robot.drivers)), "driver profile in robot.yaml")
        )
        prefix = declare(self, "tf_prefix", "", "prefix of joint names, such as left_")
        interface = declare(self, "command_interface", "position", "position or velocity")
        if interface not in ("position", "velocity"):
            raise ConfigError(
                f"'{interface}' is not known",
                where="parameter command_interface",
                allowed=["position", "velocity"],
            )
        rate_hz = declare(self, "rate_hz", 125.0, "how often streams are checked and ramps go on")
        if not 10.0 <= rate_hz <= 1000.0:
            raise ConfigError(f"{rate_hz!r}", where="parameter rate_hz", allowed="10..1000")
        defaults = {f.name: f.default for f in dataclasses.fields(SafetyLimits)}
        defaults |= {"velocity_scale": 1.0, "position_margin_rad": 0.0}
        defaults["max_step_rad"] = robot.safety.max_command_step_rad
        overrides = {
            name: declare(self, name, float(cast(float, defaults[name])), text)
            for name, text in _LIMIT_HELP.items()
        }
        limits = SafetyLimits.from_robot(robot, overrides)
        # Topic names are relative: a namespace moves an arm's whole graph.
        states_topic = driver.joint_states_topic.lstrip("/")
        self.governor = Governor(limits, cast(Interface, interface), joint_topic=states_topic)
        self._states = JointStates(robot.joint_names, prefix, states_topic, needs_velocity=False)
        self._commands = Commands(robot.joint_names, prefix, cast(Interface, interface))
        self._sequence = self._sent = self._limited = 0
        self._told: tuple[object, ...] = ()
        self._told_at_s = 0.0

        command_topic = driver.command_topic(interface).lstrip("/")
        self._controller = qos.advertise(self, Float64MultiArray, command_topic, qos.NEWEST)
        self._record = qos.advertise(self, SentCommand, "guard/sent_command", qos.RECORD)
        self._status = qos.advertise(self, GuardStatus, "guard/status", qos.LATCHED)
        qos.subscribe(self, JointState, states_topic, self._on_joint_state, qos.SENSOR)
        qos.subscribe(self, PolicyAction, "policy/action", self._on_action, qos.NEWEST)
        qos.subscribe(self, PolicyStatus, "policy/status", self._on_policy_status, qos.NEWEST)
        self.create_service(Trigger, "guard/resume", self._on_resume)
        self.create_service(Trigger, "guard/stop", self._on_stop)
        self.create_timer(1.0 / rate_hz, self._on_tick)
        self._tell(self._now())
        self.get_logger().info(
            f"guard of {robot.name}: {interface} commands to '{self._controller.topic_name}', "
            f"joint states from '{self.resolve_topic_name(states_topic)}', {rate_hz:g} Hz"
        )

    def close(self) -> None:
        """Hold on the way out: position: the last command stays; velocity: zero."""
        if self.governor.interface == "velocity" and self._sent:
            zero = [0.0] * len(self.governor.limits.joint_names)
            self._controller.publish(Float64MultiArray(data=zero))

    def _now(self) -> float:
        return self.get_clock().now().nanoseconds * 1e-9

    def _on_joint_state(self, message: JointState) -> None:
        try:
            sample = self._states.read(message)
            if isinstance(sample, Reason):
                self.governor.joint_state_refused(sample)
                return
            now_s = self._now()
            self._act(
                self.governor.joint_state(sample.stamp_s, sample.position, sample.velocity, now_s),
                now_s,
            )
        except Exception as error:
            self._broken(error)

    def _on_action(self, message: PolicyAction) -> None:
        try:
            now_s = self._now()
            targets = self._commands.targets(message)
            if isinstance(targets, Reason):
                self._act(self.governor.action_refused(targets, now_s), now_s)
                return
            self._sequence = message.sequence
            measured_at_s = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
            self._act(self.governor.action(targets, measured_at_s, now_s), now_s)
        except Exception as error:
            self._broken(error)

    def _on_policy_status(self, message: PolicyStatus) -> None:
        try:
            now_s = self._now()
            if message.state in (PolicyStatus.RUNNING, PolicyStatus.HOLD):
                self.governor.heartbeat(now_s)
            else:
                self._act(self.governor.policy_idle(now_s), now_s)
        except Exception as error:
            self._broken(error)

    def _on_tick(self) -> None:
        try:
            now_s = self._now()
            self._act(self.governor.tick(now_s), now_s)
            if now_s - self._told_at_s >= _STATUS_PERIOD_S or now_s < self._told_at_s:
                self._tell(now_s)
        except Exception as error:
            self._broken(error)

    def _on_stop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        now_s = self._now()
        self._act(self.governor.stop(now_s, "stop was requested by guard/stop"), now_s)
        response.success, response.message = True, "holding until guard/resume"
        return response

    def _on_resume(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        now_s = self._now()
        refusal = self.governor.resume(now_s)
        response.success = refusal is None
        response.message = (
            str(refusal) if refusal else "ready: the next action starts from the measured pose"
        )
        self._log(f"guard/resume: {response.message}", warn=not response.success)
        self._tell(now_s)
        return response

    def _act(self, decision: Decision | None, now_s: float) -> None:
        """Send first, report after."""
        if decision is None:
            return
        if decision.command is not None:
            self._controller.publish(Float64MultiArray(data=decision.command.tolist()))
            sequence = self._sequence if decision.follows_policy else 0
            self._sent += 1
            self._limited += decision.limited
            self._record.publish(
                self._commands.sent_message(decision.command, now_s, sequence, decision.limit)
            )
        governor = self.governor
        news = (governor.state, governor.reason.code, governor.reason.joint)
        if news != self._told:
            if governor.reason:
                self._log(f"{governor.state.name}: {governor.reason}", warn=True)
            else:
                self._log(governor.state.name, warn=False)
            self._tell(now_s)

    def _tell(self, now_s: float) -> None:
        governor = self.governor
        message = GuardStatus(
            state=int(governor.state),
            reason=reason_message(governor.reason),
            commands_sent=self._sent,
            commands_limited=self._limited,
            policy_frames_dropped=governor.dropped,
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._told = (governor.state, governor.reason.code, governor.reason.joint)
        self._told_at_s = now_s
        self._status.publish(message)

    def _log(self, text: str, *, warn: bool) -> None:
        # Two call sites: rclpy ties a call site to one severity.
        if warn:
            self.get_logger().warning(text)
        else:
            self.get_logger().info(text)

    def _broken(self, error: Exception) -> None:
        """A fault of our own: hold and say so, for a guard that ends would leave the arm alone."""
        self.get_logger().fatal(f"internal error\n{traceback.format_exc()}")
        now_s = self._now()
        reason = Reason(
            Code.NOT_READY,
            f"internal error of the guard: {type(error).__name__}: {error}",
            "report it with the log, then restart guard_node",
        )
        self._act(self.governor.fault(reason, now_s), now_s)


def main(args: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; exit code as in node_main.run."""
    return run("guard_node", GuardNode, args)


if __name__ == "__main__":
    sys.exit(main())
