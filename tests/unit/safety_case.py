"""A three-joint arm for the tests of the safety room."""

from __future__ import annotations

import numpy as np

from rlinf_ros.safety.governor import Decision, Governor, State
from rlinf_ros.safety.limits import SafetyLimits

JOINTS = ("a", "b", "c")


def off(a: float, b: float, c: float) -> np.ndarray:
    """A difference of joint positions."""
    return np.array([a, b, c])


def limits(**changes: float) -> SafetyLimits:
    values: dict = {
        "joint_names": JOINTS,
        "lower": np.array([-2.0, -2.0, -1.0]),
        "upper": np.array([2.0, 2.0, 1.0]),
        "velocity": np.array([3.0, 3.0, 2.0]),
        "acceleration": np.array([5.0, 5.0, 5.0]),
        "max_step_rad": 0.04,
    }
    return SafetyLimits(**(values | changes))


class Arm:
    """A governor with an arm that follows perfectly, in simulated time of 1 ms."""

    def __init__(self, interface="position", q=(0.1, -0.2, 0.3), **changes):
        self.governor = Governor(limits(**changes), interface)
        self.q, self.now = np.array(q), 100.0
        self.interface, self.velocity = interface, np.zeros(3)
        self.sent: list[tuple[float, np.ndarray]] = []
        self.noise = 0.0

    def note(self, decision: Decision | None) -> Decision | None:
        if decision is not None and decision.command is not None:
            self.sent.append((self.now, decision.command.copy()))
            if self.interface == "position":
                self.q = decision.command.copy()
            else:
                self.velocity = decision.command.copy()
        return decision

    def state(self, q=None, age=0.0, velocity=None):
        """A joint state whose values always differ a little, as a true arm's do."""
        self.noise = 1e-9 - self.noise
        q = self.q + self.noise if q is None else np.asarray(q, float)
        return self.note(self.governor.joint_state(self.now - age, q, velocity, self.now))

    def act(self, target, age=0.0):
        return self.note(self.governor.action(target, self.now - age, self.now))

    def run(self, seconds, *, target=None, states=True, beats=True, period=0.02, tick=0.008):
        """Let time pass with joint states, heartbeats, ticks and, if given, actions."""
        decisions = []
        for i in range(1, round(seconds * 1000) + 1):
            self.now += 0.001
            self.q = self.q + self.velocity * 0.001
            if states and i % 2 == 0:
                self.state()
            if beats and i % 20 == 0:
                self.governor.heartbeat(self.now)
            if target is not None and i % round(period * 1000) == 0:
                decisions.append(self.act(target(self) if callable(target) else target))
            if i % round(tick * 1000) == 0:
                decisions.append(self.note(self.governor.tick(self.now)))
        return decisions

    def active(self, target=(0.1, -0.2, 0.3)):
        """Bring it to ACTIVE at `target`."""
        self.state()
        self.governor.tick(self.now)
        self.run(2.0, target=target)
        assert self.governor.state is State.ACTIVE, self.governor.reason
        return self
