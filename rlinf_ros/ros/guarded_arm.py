"""GuardedArm: the arm as the policy node sees it, joint states in, targets to the guard out."""

from __future__ import annotations

from rclpy.node import Node
from sensor_msgs.msg import JointState

from ..contract.model import Contract
from ..robot.description import RobotDescription
from ..runtime.robot_io import ActionFrame, ArmSample, RobotIO, Vector
from ..safety.governor import State
from ..safety.reason import Code, Reason
from . import qos
from .convert import Commands, JointStates, reason, seconds
from .messages import GuardStatus, PolicyAction, SentCommand


class GuardedArm(RobotIO):
    """RobotIO over topics: joint states, guard/sent_command, guard/status, policy/action."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        robot: RobotDescription,
        prefix: str,
        states_topic: str,
        *,
        needs_velocity: bool,
    ) -> None:
        self._node, self._contract = node, contract
        self._states = JointStates(
            robot.joint_names, prefix, states_topic, needs_velocity=needs_velocity
        )
        self._commands = Commands(robot.joint_names, prefix, contract.action.command_interface)
        self._sample: ArmSample | None = None
        self.refusal: Reason | None = None  # why the newest joint state was not used
        self._sent: Vector | None = None
        self._started_s = 0.0
        self._guard: Reason | None = None
        self._guard_state: State | None = None
        self.sequence = 0
        self._subscriptions = [
            qos.subscribe(node, JointState, states_topic, self._on_joint_state, qos.SENSOR),
            qos.subscribe(node, SentCommand, "guard/sent_command", self._on_sent, qos.NEWEST),
            qos.subscribe(node, GuardStatus, "guard/status", self._on_guard, qos.LATCHED),
        ]
        self._action = qos.advertise(node, PolicyAction, "policy/action", qos.NEWEST)

    def read(self) -> ArmSample | None:
        """The newest complete joint state, None before the first."""
        return self._sample

    def sent(self) -> Vector | None:
        """The newest command (J,) that went to the controller since `start`; None before."""
        return self._sent

    def start(self, now_s: float) -> None:
        """A run begins: commands of before do not count."""
        self._sent, self._started_s = None, now_s

    def write(self, frame: ActionFrame) -> None:
        """Hand the targets to the guard."""
        self.sequence += 1
        self._action.publish(
            self._commands.action_message(
                frame.targets,
                frame.stamp_s,
                self.sequence,
                self._contract.control_dt_s,
                frame.raw_action.tolist(),
            )
        )

    def hindrance(self) -> tuple[Reason | None, bool]:
        """Why the guard lets nothing through, and whether only an operator can change that."""
        if self._guard_state is State.FAULT:
            return self._guard, True
        if self._guard:
            return self._guard, False
        if self._sent is None:
            return (
                Reason(
                    Code.NOT_READY,
                    "no command of the guard has been seen since the run began",
                    "check that guard_node runs, in the same namespace and ROS_DOMAIN_ID",
                    "guard/sent_command",
                ),
                False,
            )
        return None, False

    def destroy(self) -> None:
        """Take the topics down."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(self._action)

    def _on_joint_state(self, message: JointState) -> None:
        sample = self._states.read(message)
        if isinstance(sample, Reason):
            self.refusal = sample
        else:
            self._sample, self.refusal = sample, None

    def _on_sent(self, message: SentCommand) -> None:
        if seconds(message.header.stamp) < self._started_s:
            return
        command = self._commands.sent(message)
        if isinstance(command, Reason):
            self._node.get_logger().error(str(command), throttle_duration_sec=5.0)
            return
        self._sent = command

    def _on_guard(self, message: GuardStatus) -> None:
        self._guard_state = State(message.state)
        self._guard = reason(message.reason) or None
