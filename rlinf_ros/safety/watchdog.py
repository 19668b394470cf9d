"""Watchdogs: whether a stream can be relied on now, and if not, why not.

Times are seconds of one clock, given by the caller. A sample that can't be used changes nothing:
the stream keeps its last complete value and grows older, until its age is the fault.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from .judge import MAX_CLOCK_JUMP_S
from .limits import SafetyLimits, Vector
from .reason import Code, Reason

# Motion that a healthy arm would show in its joint states, rad: far above a UR's resolution.
FROZEN_MOTION_RAD = 0.01


class Watchdog:
    """Watches the age of one stream, of which only the time of the newest sample matters."""

    def __init__(self, topic: str, max_age_s: float, code: Code, remedy: str) -> None:
        self.topic, self.max_age_s = topic, max_age_s
        self._code, self._remedy = code, remedy
        self._stamp_s: float | None = None

    def feed(self, stamp_s: float) -> None:
        """A usable sample arrived."""
        self._stamp_s = stamp_s

    def forget(self) -> None:
        """Back to never seen, after a jump of the clock."""
        self._stamp_s = None

    @property
    def seen(self) -> bool:
        """Whether a usable sample has arrived."""
        return self._stamp_s is not None

    def age_s(self, now_s: float) -> float:
        """Age of the newest usable sample, infinite before the first."""
        return math.inf if self._stamp_s is None else now_s - self._stamp_s

    def check(self, now_s: float) -> Reason | None:
        """What is wrong with the stream now, or None."""
        age_s = self.age_s(now_s)
        if age_s <= self.max_age_s:
            return None
        text = f"nothing newer than {age_s:.3g} s on {self.topic}, allowed are {self.max_age_s:g} s"
        if not self.seen:
            text = f"nothing has arrived on {self.topic} yet"
        return Reason(self._code, text, self._remedy, self.topic, value=age_s, limit=self.max_age_s)


class JointStateWatchdog(Watchdog):
    """Watches an arm's joint states: age, completeness, finiteness, time order, frozen values."""

    def __init__(self, limits: SafetyLimits, topic: str) -> None:
        super().__init__(
            topic,
            limits.input_max_age_s,
            Code.STALE_INPUT,
            "check the driver, the network and that both clocks agree",
        )
        self.limits = limits
        self.position: Vector | None = None
        self._velocity: Vector | None = None
        self._refusal: Reason | None = None  # why the newest message was not used
        self._command_then: Vector | None = None  # command when the values last changed
        self._moving_since_s: float | None = None

    def accept(
        self, stamp_s: float, position: Vector, velocity: Vector | None, now_s: float
    ) -> Reason | None:
        """Take a complete sample, position and velocity (J,); the reason if it can't be used.

        Also returns a reason, CLOCK_JUMP, for time that went back: everything before is forgotten.
        """
        for what, values in (("position", position), ("velocity", velocity)):
            if values is not None and not np.all(np.isfinite(values)):
                j = int(np.argmax(~np.isfinite(values)))
                return self.refuse(
                    Reason(
                        Code.NON_FINITE,
                        f"{what} of '{self.limits.joint_names[j]}' is {values[j]} on {self.topic}",
                        "check the driver: it publishes values that are no numbers",
                        self.topic,
                        self.limits.joint_names[j],
                        float(values[j]),
                    )
                )
        ahead_s = stamp_s - now_s
        if ahead_s > MAX_CLOCK_JUMP_S:
            return self.refuse(self._jump(ahead_s, f"the stamp is {ahead_s:.3g} s in the future"))
        back_s = self._stamp_s - stamp_s if self._stamp_s is not None else 0.0
        if back_s > MAX_CLOCK_JUMP_S:
            self.forget()
            return self.refuse(self._jump(-back_s, f"stamps went back by {back_s:.3g} s"))
        if back_s > 0:
            return None  # overtaken on the way: a newer one is here already
        same = (
            self.position is not None
            and np.array_equal(position, self.position)
            and (
                velocity is None
                or self._velocity is None
                or np.array_equal(velocity, self._velocity)
            )
        )
        if not same:
            self.rearm()
        self.position, self._velocity, self._refusal = position, velocity, None
        self.feed(stamp_s)
        return None

    def refuse(self, reason: Reason) -> Reason:
        """A message could not be used; the reason is told when the stream is missed."""
        self._refusal = reason
        return reason

    def rearm(self) -> None:
        """Start the watch for frozen values anew, for a new run."""
        self._command_then = self._moving_since_s = None

    def forget(self) -> None:
        super().forget()
        self.position = self._velocity = None
        self.rearm()

    def check(self, now_s: float) -> Reason | None:
        missing = super().check(now_s)
        if missing is not None and self._refusal is not None:
            return dataclasses.replace(self._refusal, text=f"{self._refusal.text}; {missing.text}")
        return missing

    def check_frozen(self, commanded: Vector, now_s: float) -> Reason | None:
        """Fresh stamps on values that don't change while the commanded position (J,), rad, moves.

        This is what a lost link looks like behind a driver that keeps publishing.
        """
        if self._command_then is None:
            self._command_then = commanded
        moved = np.abs(commanded - self._command_then)
        if self._moving_since_s is None:
            if np.max(moved) > FROZEN_MOTION_RAD:
                self._moving_since_s = now_s
            return None
        for_s = now_s - self._moving_since_s
        if for_s < self.limits.frozen_window_s:
            return None
        joint = self.limits.joint_names[int(np.argmax(moved))]
        return Reason(
            Code.FROZEN_INPUT,
            f"no value on {self.topic} has changed for {for_s:.3g} s while commands moved "
            f"'{joint}' by {np.max(moved):.3g} rad",
            "check the link between robot and driver, and that the robot's program runs",
            self.topic,
            joint,
            for_s,
            self.limits.frozen_window_s,
        )

    def _jump(self, jump_s: float, what: str) -> Reason:
        return Reason(
            Code.CLOCK_JUMP,
            f"{what} on {self.topic}",
            "check use_sim_time on both sides, and the clocks of both machines",
            self.topic,
            value=jump_s,
            limit=MAX_CLOCK_JUMP_S,
        )
