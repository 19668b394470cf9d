"""Between messages and the arrays and dataclasses of the pure rooms. Joints go by name, here, once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState

from ..pipeline.joints import JointError, JointReader
from ..runtime.robot_io import ArmSample, Vector
from ..safety.judge import Interface
from ..safety.reason import Code, Reason
from .messages import PolicyAction, SentCommand
from .messages import Reason as ReasonMessage


def seconds(stamp: Time) -> float:
    """A time stamp in s."""
    return float(stamp.sec) + float(stamp.nanosec) * 1e-9


def stamp(seconds: float) -> Time:
    """A time in s as a stamp."""
    whole = int(np.floor(seconds))
    nanoseconds = round((seconds - whole) * 1e9)
    return Time(sec=whole + nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def reason_message(reason: Reason) -> ReasonMessage:
    """Reason → message."""
    return ReasonMessage(
        code=int(reason.code),
        name=reason.code.name,
        topic=reason.topic,
        joint=reason.joint,
        value=float(reason.value),
        limit=float(reason.limit),
        text=reason.text,
        remedy=reason.remedy,
    )


def reason(message: ReasonMessage) -> Reason:
    """Message → Reason; a code of a newer version becomes NOT_READY with its name in the text."""
    known = message.code in Code._value2member_map_
    return Reason(
        code=Code(message.code) if known else Code.NOT_READY,
        text=message.text if known else f"{message.name}: {message.text}",
        remedy=message.remedy,
        topic=message.topic,
        joint=message.joint,
        value=message.value,
        limit=message.limit,
    )


class JointStates:
    """Reads joint states, in whatever order the driver publishes them, into the robot's own.

    prefix: the driver's `tf_prefix`. needs_velocity: whether the contract shows velocities to the
    policy; if not, a driver that publishes none (or NaN) will do.
    """

    def __init__(
        self, joint_names: Sequence[str], prefix: str, topic: str, *, needs_velocity: bool
    ) -> None:
        self._reader = JointReader(joint_names, prefix)
        self._topic, self._needs_velocity = topic, needs_velocity

    def read(self, message: JointState) -> ArmSample | Reason:
        """A complete sample, or the reason why the message can't be used for the arm."""
        try:
            position = self._reader.read(message.name, message.position, "position")
            velocity = None
            if len(message.velocity):
                velocity = self._reader.read(message.name, message.velocity, "velocity")
        except JointError as error:
            return self._incomplete(str(error))
        for what, values in (("position", position), ("velocity", velocity)):
            if values is None or np.all(np.isfinite(values)):
                continue
            if what == "velocity" and not self._needs_velocity:
                velocity = None
                continue
            j = int(np.argmax(~np.isfinite(values)))
            joint = self._reader.joint_names[j]
            return Reason(
                Code.NON_FINITE if what == "position" else Code.INCOMPLETE_INPUT,
                f"{what} of '{joint}' is {values[j]} on {self._topic}",
                "check the driver: it publishes values that are no numbers",
                self._topic,
                joint,
                float(values[j]),
            )
        if velocity is None and self._needs_velocity:
            return self._incomplete(f"no velocities on {self._topic}, which the contract needs")
        return ArmSample(seconds(message.header.stamp), position, velocity)

    def _incomplete(self, text: str) -> Reason:
        first, *rest = text.splitlines()
        return Reason(
            Code.INCOMPLETE_INPUT,
            " ".join([first, *(line.strip() for line in rest)]),
            "check that the driver publishes all joints of the arm, and tf_prefix",
            self._topic,
        )


class Commands:
    """Reads and writes vectors of joint targets that carry names: PolicyAction and SentCommand."""

    def __init__(self, joint_names: Sequence[str], prefix: str, interface: Interface) -> None:
        self._reader = JointReader(joint_names, prefix)
        self._names = [prefix + name for name in joint_names]
        self.interface = interface

    def action_message(
        self, targets: Vector, stamp_s: float, sequence: int, step_dt_s: float, raw: Sequence[float]
    ) -> PolicyAction:
        """One step of a policy."""
        message = PolicyAction(
            sequence=sequence,
            command_interface=self.interface,
            joint_names=self._names,
            step_dt=step_dt_s,
            horizon=1,
            targets=targets.tolist(),
            raw_action=[float(value) for value in raw],
        )
        message.header.stamp = stamp(stamp_s)
        return message

    def targets(self, message: PolicyAction) -> Vector | Reason:
        """Targets of the first step in the robot's order, or why the message can't be used."""
        if message.horizon != 1:
            return Reason(
                Code.WRONG_LENGTH,
                f"an action has {message.horizon} steps, this guard takes one at a time",
                "send single steps",
                "policy/action",
                value=float(message.horizon),
                limit=1.0,
            )
        return self._vector(
            message.command_interface, message.joint_names, message.targets, "policy/action"
        )

    def sent_message(
        self, command: Vector, stamp_s: float, policy_sequence: int, limit: Reason | None
    ) -> SentCommand:
        """What went to the controller."""
        message = SentCommand(
            policy_sequence=policy_sequence,
            command_interface=self.interface,
            joint_names=self._names,
            command=command.tolist(),
            limited=limit is not None,
        )
        message.reason.name = Code.NONE.name
        message.reason.value = message.reason.limit = float("nan")
        if limit is not None:
            message.reason = reason_message(limit)
        message.header.stamp = stamp(stamp_s)
        return message

    def sent(self, message: SentCommand) -> Vector | Reason:
        """The command in the robot's order, or why it can't be used."""
        return self._vector(
            message.command_interface, message.joint_names, message.command, "guard/sent_command"
        )

    def _vector(
        self, interface: str, names: Sequence[str], values: Sequence[float], topic: str
    ) -> Vector | Reason:
        if interface != self.interface:
            return Reason(
                Code.WRONG_INTERFACE,
                f"'{interface}' commands on {topic}, this node expects '{self.interface}'",
                "give guard and policy the same command interface",
                topic,
            )
        if len(values) != len(names):
            return Reason(
                Code.WRONG_LENGTH,
                f"{len(values)} values for {len(names)} joint names on {topic}",
                "check that policy and guard run for the same robot",
                topic,
                value=float(len(values)),
                limit=float(len(names)),
            )
        try:
            vector = self._reader.read(names, values, "command")
        except JointError as error:
            return self._wrong_joints(str(error).splitlines()[0], topic)
        if len(names) != len(self._names):
            unknown = next(name for name in names if name not in self._names)
            return self._wrong_joints(f"joint '{unknown}' is not the robot's", topic)
        return vector

    def _wrong_joints(self, text: str, topic: str) -> Reason:
        remedy = "give guard and policy the same robot and tf_prefix"
        return Reason(Code.WRONG_JOINTS, f"{text} on {topic}", remedy, topic)
