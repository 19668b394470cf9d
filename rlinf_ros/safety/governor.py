"""The Governor: decides for each moment which command, if any, goes to the arm's controller.

    WAITING ──first complete joint state──▶ HOLD ──first action──▶ RAMP ──gap closed──▶ ACTIVE
                                             ▲                      │                     │
                                             └── stop, silence, unusable input ◀──────────┘
    any of them ──frozen input, bad actions in a row, fault()──▶ FAULT ──resume()──▶ HOLD

Position interface: HOLD sends the last command once more and then nothing, so that an arm that was
moved by hand is never called back. Velocity interface: HOLD brakes to zero. The first command of
each run is the measured position; the gap from there to the target closes at the ramp velocity.
An interruption longer than the grace time, a stop and a fault need an explicit `resume`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from .judge import MAX_CLOCK_JUMP_S, Interface, judge_action, judge_start
from .limits import SafetyLimits, Vector
from .motion import bounded_position, bounded_velocity, braked_velocity
from .reason import NO_REASON, Code, Reason
from .watchdog import JointStateWatchdog, Watchdog

_REFUSED_START = (Code.START_TOO_FAR, Code.POSITION_LIMIT)  # told until the next action
_CALL_RESUME = "remove the cause, then call guard/resume"


class State(IntEnum):
    """The same numbers as in rlinf_ros_msgs/GuardStatus."""

    WAITING = 0
    HOLD = 1
    RAMP = 2
    ACTIVE = 3
    FAULT = 4


@dataclass(frozen=True, eq=False)
class Decision:
    """What to send now. command: (J,) rad or rad/s, None = send nothing. reason: why in this state.

    limit: the bound that bent the command the most, None if it is what was asked for.
    follows_policy: the command answers the newest action (not hold or ramp).
    anchor: the command is the measured position, from which a run starts.
    """

    command: Vector | None
    state: State
    reason: Reason = NO_REASON
    limit: Reason | None = None
    follows_policy: bool = False
    anchor: bool = False

    @property
    def limited(self) -> bool:
        """Whether a limit changed the command."""
        return self.limit is not None


class Governor:
    """Feed it joint states, heartbeats and actions; each action and each tick gives a Decision.

    Times are seconds of one clock. Vectors are (J,) in the order of `limits.joint_names`.
    """

    def __init__(
        self,
        limits: SafetyLimits,
        interface: Interface = "position",
        *,
        joint_topic: str = "joint_states",
        policy_topic: str = "policy/status",
    ) -> None:
        self.limits, self.interface = limits, interface
        self.joints = JointStateWatchdog(limits, joint_topic)
        self.heartbeat_watch = Watchdog(
            policy_topic,
            limits.heartbeat_timeout_s,
            Code.HEARTBEAT_LOST,
            f"check that the policy node runs; {_CALL_RESUME}",
        )
        self.state, self.reason = State.WAITING, NO_REASON
        self.resume_required = False
        self.dropped = 0  # unusable actions since the start
        self._dropped_in_row = 0
        self._now_s = -np.inf
        self._held_since_s: float | None = None  # start of an interruption that may still pass
        self._held_from = State.ACTIVE  # where it returns to then
        self._target: Vector | None = None
        self._target_at_s = 0.0
        # Start minus first target: added to the target, it shrinks to zero at the ramp velocity.
        self._gap = np.zeros(len(limits.joint_names))
        self._gap_at_s = 0.0
        self._last: Vector | None = None  # last command
        self._sent_at_s = 0.0
        self._commanded = self._gap  # position that the commands lead to, rad

    # ---- what arrives ---------------------------------------------------------------------------

    def joint_state(
        self, stamp_s: float, position: Vector, velocity: Vector | None, now_s: float
    ) -> Decision | None:
        """A complete joint state. A Decision only if it stops the arm: time that jumps."""
        refusal = self.joints.accept(stamp_s, position, velocity, now_s)
        if refusal is not None and refusal.code is Code.CLOCK_JUMP:
            return self._interrupt(refusal, now_s, latch=True)
        return None

    def joint_state_refused(self, reason: Reason) -> None:
        """A joint state could not be read; the stream keeps its last value and ages."""
        self.joints.refuse(reason)

    def heartbeat(self, now_s: float) -> None:
        """The policy node lives."""
        self.heartbeat_watch.feed(now_s)

    def policy_idle(self, now_s: float) -> Decision:
        """The policy node lives and has no run: hold at once, and let the next action start anew."""
        self.heartbeat(now_s)
        if self.state in (State.RAMP, State.ACTIVE):
            return self._hold(NO_REASON, now_s)
        return self._nothing()

    def action(self, target: npt.ArrayLike, stamp_s: float, now_s: float) -> Decision:
        """A joint target (J,) for the joint state of `stamp_s`: the command to send at once."""
        if (jump := self._advance_clock(now_s)) is not None:
            return jump
        self.heartbeat(now_s)
        wanted = np.asarray(target, dtype=np.float64)
        bad = judge_action(wanted, now_s - stamp_s, self.interface, self.limits)
        if bad is not None:
            return self.action_refused(bad, now_s)
        self._dropped_in_row = 0
        self._wake()
        if self.state in (State.WAITING, State.FAULT) or self.resume_required:
            return self._nothing()
        if (problem := self._problem(now_s)) is not None:
            return self._interrupt(problem, now_s)
        self._target, self._target_at_s = wanted, now_s
        if self.state is not State.HOLD:
            return self._follow(now_s)
        held_s = np.inf if self._held_since_s is None else now_s - self._held_since_s
        if held_s <= self.limits.hold_grace_s:
            self.state, self.reason, self._held_since_s = self._held_from, NO_REASON, None
            self._gap_at_s = now_s  # a ramp goes on from where it stood
            return self._follow(now_s)
        return self._start(wanted, now_s)

    def action_refused(self, reason: Reason, now_s: float) -> Decision:
        """An action that can't be used, as a whole; several in a row are a fault."""
        self.heartbeat(now_s)
        self.dropped += 1
        self._dropped_in_row += 1
        if self._dropped_in_row >= self.limits.max_dropped_in_row:
            return self.fault(reason, now_s)
        return self._interrupt(reason, now_s)

    def tick(self, now_s: float) -> Decision:
        """Time has passed: watch the streams, go on with a ramp or a limited step, brake."""
        if (jump := self._advance_clock(now_s)) is not None:
            return jump
        self._wake()
        problem = self._problem(now_s)
        if self.state in (State.RAMP, State.ACTIVE):
            if problem is not None:
                return self._interrupt(problem, now_s)
            if now_s - self._target_at_s > self.limits.action_timeout_s:
                return self._hold(NO_REASON, now_s)
            return self._follow(now_s)
        if self.state is State.HOLD:
            self._age_hold(problem, now_s)
        elif self.state is State.WAITING:
            self.reason = problem or NO_REASON
        return self._brake(now_s)

    # ---- what an operator asks for --------------------------------------------------------------

    def stop(self, now_s: float, text: str = "stop was requested") -> Decision:
        """Hold until `resume`."""
        reason = Reason(Code.STOP_REQUESTED, text, _CALL_RESUME)
        decision = self._interrupt(reason, now_s, latch=True)
        self.resume_required = True
        if self.state is not State.FAULT:
            self.reason = reason
        return Decision(decision.command, self.state, self.reason)

    def fault(self, reason: Reason, now_s: float) -> Decision:
        """Latch a fault: hold (velocity: brake first), then send nothing until `resume`."""
        if self.state is State.FAULT:
            return self._nothing()
        decision = self._hold(reason, now_s)
        self.state, self.resume_required = State.FAULT, True
        return Decision(decision.command, self.state, reason)

    def resume(self, now_s: float) -> Reason | None:
        """Clear a stop or fault, if the inputs are sound; else the reason why not. Nothing is sent:
        the next action starts a new run from the measured position."""
        self._wake()
        if (problem := self.joints.check(now_s)) is not None:
            return problem
        if self.interface == "velocity" and self._last is not None and np.any(self._last):
            return Reason(Code.NOT_READY, "the arm is still braking", "call again in a moment")
        self.resume_required, self._held_since_s, self._dropped_in_row = False, None, 0
        self.joints.rearm()
        self.state, self.reason, self._target = State.HOLD, NO_REASON, None
        return None

    # ---- inside ---------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self.state is State.WAITING and self.joints.seen:
            self.state = State.HOLD
            self._commanded = self._measured()

    def _measured(self) -> Vector:
        position = self.joints.position
        assert position is not None, "asked for a position before the first joint state"
        return position

    def _problem(self, now_s: float) -> Reason | None:
        """What forbids moving now. The heartbeat counts only while the policy moves the arm."""
        problem = self.joints.check(now_s)
        if problem is None and self.state in (State.RAMP, State.ACTIVE):
            problem = self.heartbeat_watch.check(now_s)
            if problem is None:
                problem = self.joints.check_frozen(self._commanded, now_s)
        return problem

    def _advance_clock(self, now_s: float) -> Decision | None:
        back_s = self._now_s - now_s
        if back_s > MAX_CLOCK_JUMP_S:
            self._now_s = self._sent_at_s = self._gap_at_s = now_s
            self.joints.forget()
            self.heartbeat_watch.forget()
            reason = Reason(
                Code.CLOCK_JUMP,
                f"this node's clock went back by {back_s:.3g} s",
                _CALL_RESUME,
                value=-back_s,
                limit=MAX_CLOCK_JUMP_S,
            )
            return self._interrupt(reason, now_s, latch=True)
        self._now_s = max(self._now_s, now_s)
        return None

    def _since_sent(self, now_s: float) -> float:
        return max(now_s - self._sent_at_s, 0.0)  # a clock may go back a little

    def _nothing(self) -> Decision:
        return Decision(None, self.state, self.reason)

    def _interrupt(self, reason: Reason, now_s: float, latch: bool = False) -> Decision:
        """Hold because of `reason`; a frozen input is a fault. latch: what was moving needs a
        resume at once, not only after the grace time."""
        if reason.code is Code.FROZEN_INPUT:
            return self.fault(reason, now_s)
        if self.state in (State.RAMP, State.ACTIVE):
            self._held_from, self._held_since_s = self.state, now_s
            decision = self._hold(reason, now_s)
        else:
            decision = self._brake(now_s)
            if self.state is not State.FAULT and not self.resume_required:
                self.reason = reason
        if latch and self._held_since_s is not None:
            self.resume_required, self._held_since_s = True, None
        return Decision(decision.command, self.state, self.reason)

    def _hold(self, reason: Reason, now_s: float) -> Decision:
        """Enter HOLD. Position: the last command once more; velocity: the first step of braking."""
        moving = self.state in (State.RAMP, State.ACTIVE)
        if reason.code is Code.NONE:
            self._held_since_s = None
        if self.state is not State.WAITING:
            self.state = State.HOLD
        self.reason, self._target = reason, None
        if self.interface == "velocity":
            return self._brake(now_s)
        if not moving or self._last is None:
            return self._nothing()
        return self._send(self._last, now_s)

    def _age_hold(self, problem: Reason | None, now_s: float) -> None:
        """While in HOLD: an interruption that lasts needs a resume, and its cause may have gone."""
        if self._held_since_s is not None:
            if now_s - self._held_since_s > self.limits.hold_grace_s:
                self._held_since_s, self.resume_required = None, True
        elif self.resume_required:
            silent = self.reason.code is Code.HEARTBEAT_LOST and self.heartbeat_watch.check(now_s)
            told = self.reason.code in (Code.STOP_REQUESTED, Code.RESUME_REQUIRED)
            if not (told or problem or silent):
                self.reason = Reason(
                    Code.RESUME_REQUIRED,
                    f"stopped by {self.reason.code.name}: {self.reason.text}",
                    "check that the arm may move, then call guard/resume",
                )
        elif problem is not None or self.reason.code not in _REFUSED_START:
            self.reason = problem or NO_REASON

    def _brake(self, now_s: float) -> Decision:
        """Velocity interface, not following the policy: on to zero. Position interface: nothing."""
        if self.interface == "position" or self._last is None or not np.any(self._last):
            return self._nothing()
        dt_s = self._since_sent(now_s)
        command = braked_velocity(self._last, self.joints.position, self.limits, dt_s)
        return self._send(command, now_s)

    def _start(self, target: Vector, now_s: float) -> Decision:
        """First action of a run: send where the arm is, if the target is near enough."""
        measured, self._held_since_s = self._measured(), None
        refusal = judge_start(target, measured, self.interface, self.limits)
        if refusal is not None:
            self.reason = refusal
            return self._nothing()
        self.reason = NO_REASON
        if self.interface == "velocity":
            self._commanded, self.state = measured, State.ACTIVE
            return self._send(np.zeros_like(measured), now_s, anchor=True)
        self._gap, self._gap_at_s = measured - target, now_s
        self.state = State.RAMP
        return self._send(measured.copy(), now_s, anchor=True)

    def _follow(self, now_s: float) -> Decision:
        """One bounded step toward the target, or toward where the ramp is by now."""
        assert self._target is not None and self._last is not None
        measured, dt_s = self._measured(), self._since_sent(now_s)
        if self.interface == "velocity":
            self._commanded = self._commanded + self._last * dt_s
            command, limit = bounded_velocity(self._target, self._last, measured, self.limits, dt_s)
        else:
            ramping = self.state is State.RAMP
            if ramping:
                closed = self.limits.ramp_velocity_rad_s * max(now_s - self._gap_at_s, 0.0)
                self._gap = np.sign(self._gap) * np.maximum(np.abs(self._gap) - closed, 0.0)
                self._gap_at_s = now_s
                if not np.any(self._gap):
                    self.state = State.ACTIVE
            wanted = self._target + self._gap
            command, limit = bounded_position(wanted, self._last, measured, self.limits, dt_s)
        if np.array_equal(command, self._last) and self.interface == "position":
            return Decision(None, self.state, self.reason, limit)
        return self._send(command, now_s, limit, follows_policy=self.state is State.ACTIVE)

    def _send(
        self,
        command: Vector,
        now_s: float,
        limit: Reason | None = None,
        *,
        follows_policy: bool = False,
        anchor: bool = False,
    ) -> Decision:
        self._last, self._sent_at_s = command, now_s
        if self.interface == "position":
            self._commanded = command
        return Decision(command, self.state, self.reason, limit, follows_policy, anchor)
