"""Whatever arrives, in whatever order: no emitted command breaks a limit or is not a number."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlinf_ros.safety.governor import Governor, State
from rlinf_ros.safety.reason import Code, Reason

from .safety_case import limits

LIMITS = limits(max_start_distance_rad=3.0, ramp_velocity_rad_s=2.5)
# An event is five bytes (what, three numbers, a time): Hypothesis draws an example at once.
ODD = [2.0, -2.0, 0.0, 1e-9, 1e30, -1e30, 65504.0, math.inf, -math.inf, math.nan, math.nan]
NUMBERS = [*np.linspace(-0.3, 0.3, 200), *np.linspace(-1.2, 1.2, 45), *ODD]
WAITS = [0.0, 0.001, 0.002, 0.008, 0.01, 0.02, 0.02, 0.02, 0.03, 0.05, 0.3, 1.0, -0.01, -5.0]
KINDS = ["run", "run", "run", "run", "run", "action", "state", "tick", "beat", "stop", "resume",
         "resume", "fault", "bad", "length", "idle"]  # fmt: skip
streams = st.binary(min_size=5, max_size=150)


def events(stream):
    """(kind, three numbers, a time, a count) of each five bytes."""
    for i in range(0, len(stream) - 4, 5):
        kind, a, b, c, time = stream[i : i + 5]
        values = [NUMBERS[a], NUMBERS[b], NUMBERS[c]]
        kind = KINDS[kind % len(KINDS)]
        if kind == "run" and a % 3:  # mostly usable targets
            values = [v if math.isfinite(v) and abs(v) < 3 else 0.5 for v in values]
        yield kind, values, WAITS[time % len(WAITS)], 1 + time % 4


class Watcher:
    """Holds each emitted command against the limits."""

    def __init__(self, interface):
        self.governor, self.interface = Governor(LIMITS, interface), interface
        self.now, self.last, self.last_at = 50.0, None, None
        self.q = np.array([0.2, -0.1, 0.0])
        self.measured, self.faulted = None, False

    def wait(self, seconds):
        self.now += seconds

    def see(self, decision):
        if decision is None:
            return
        assert decision.state is self.governor.state
        command = decision.command
        if command is None:
            self.faulted = decision.state is State.FAULT
            return
        assert self.measured is not None, "a command before the first complete joint state"
        assert command.shape == (3,) and np.all(np.isfinite(command))
        if self.interface == "position":
            assert not self.faulted, "a command after a latched fault"
            assert np.all(command >= LIMITS.lower) and np.all(command <= LIMITS.upper)
            if decision.anchor:
                np.testing.assert_allclose(command, self.measured, atol=1e-6)
            else:
                step = np.abs(command - self.last)
                assert np.all(step <= LIMITS.max_step_rad + 1e-12)
                assert np.all(step <= LIMITS.velocity * max(self.now - self.last_at, 0.0) + 1e-9)
                before = np.abs(self.last - self.measured)
                bound = np.maximum(before, LIMITS.max_tracking_error_rad)
                assert np.all(np.abs(command - self.measured) <= bound + 1e-9)
        else:
            assert np.all(np.abs(command) <= LIMITS.velocity)
            inside = np.all((self.measured > LIMITS.lower) & (self.measured < LIMITS.upper))
            if inside and not decision.anchor:
                faster = np.abs(command) - np.abs(self.last)
                allowed = LIMITS.acceleration * max(self.now - self.last_at, 0.0)
                assert np.all(faster <= allowed + 1e-9)
            if self.faulted or decision.state is not State.ACTIVE:
                assert np.all(np.abs(command) <= np.abs(self.last))  # only braking
        self.last, self.last_at = command, self.now
        self.faulted = decision.state is State.FAULT

    def state(self, q, age):
        q = np.array(q, dtype=float)
        if q.shape != (3,):
            self.governor.joint_state_refused(Reason(Code.INCOMPLETE_INPUT, "a joint is missing"))
            return
        self.see(self.governor.joint_state(self.now - age, q, None, self.now))
        position = self.governor.joints.position
        self.measured = position if position is not None else self.measured

    def step(self, kind, values, seconds, count):
        governor = self.governor
        if kind == "run":
            for _ in range(count):
                self.wait(0.02)
                follows = self.interface == "position" and self.last is not None
                self.state((self.last if follows else self.q) + 1e-7 * self.now, 0.001)
                self.see(governor.action(values, self.now - 0.001, self.now))
                self.wait(0.008)
                self.see(governor.tick(self.now))
            return
        if kind not in ("action", "state"):
            self.wait(seconds)
            if self.last_at is not None:
                self.last_at = min(self.last_at, self.now)  # a clock that jumps starts a new count
        if kind == "action":
            self.see(governor.action(values, self.now - seconds, self.now))
        elif kind == "length":
            self.see(governor.action((values * 2)[: count + 3], self.now, self.now))
        elif kind == "state":
            self.state(values[: 2 if count == 1 else 3], seconds)
        elif kind == "tick":
            self.see(governor.tick(self.now))
        elif kind == "beat":
            governor.heartbeat(self.now)
        elif kind == "idle":
            self.see(governor.policy_idle(self.now))
        elif kind == "stop":
            self.see(governor.stop(self.now))
        elif kind == "resume":
            if governor.resume(self.now) is None:
                self.faulted = False
        elif kind == "fault":
            self.see(governor.fault(Reason(Code.POLICY_ERROR), self.now))
        else:
            self.see(governor.action_refused(Reason(Code.WRONG_JOINTS), self.now))


@pytest.mark.parametrize("interface", ["position", "velocity"])
@settings(max_examples=1000, deadline=None)
@given(stream=streams)
def test_case_22_no_stream_of_events_breaks_a_limit(interface, stream):
    watcher = Watcher(interface)
    watcher.state([0.2, -0.1, 0.0], 0.0)
    for event in events(stream):
        watcher.step(*event)


@settings(max_examples=200, deadline=None)
@given(stream=streams)
def test_after_a_stop_nothing_moves_without_resume(stream):
    watcher = Watcher("position")
    for event in events(stream):
        watcher.step(*event)
    watcher.see(watcher.governor.stop(watcher.now))
    for i in range(20):
        target = np.full(3, 0.3 * np.sin(i))
        watcher.wait(0.02)
        watcher.state(target, 0.0)
        decision = watcher.governor.action(target, watcher.now, watcher.now)
        assert decision.command is None
        assert watcher.governor.tick(watcher.now).command is None
