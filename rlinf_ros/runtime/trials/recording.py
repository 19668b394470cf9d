"""What is heard during one trial, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

from rlinf_ros.runtime.trials.goals import TrialGoal

Array = npt.NDArray[Any]


class State(NamedTuple):
    """A joint state as published: position and velocity (M,) in the order of `names`."""

    stamp_ns: int
    names: tuple[str, ...]
    position: Array
    velocity: Array


class Observation(NamedTuple):
    """What the policy was called with; stamp: of its joint state."""

    stamp_ns: int
    sequence: int
    data: Array


class Action(NamedTuple):
    """A policy action; stamp: of the joint state it was computed from."""

    stamp_ns: int
    sequence: int


class Command(NamedTuple):
    """What the guard sent, (J,) in the robot's order; sequence: of the action it answers, or 0."""

    stamp_ns: int
    sequence: int
    values: Array


@dataclass(eq=False)
class Recording:
    """One trial's messages, each list in order of arrival."""

    states: list[State] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def latencies_ms(self) -> list[float]:
        """From the stamp of the joint state to the sending of the command, per policy step."""
        measured = {action.sequence: action.stamp_ns for action in self.actions}
        return [
            (command.stamp_ns - measured[command.sequence]) * 1e-6
            for command in self.commands
            if command.sequence in measured
        ]


@dataclass(eq=False)
class Trial:
    """A trial, judged from joint states; reason and said_success are what the policy node said."""

    goal: TrialGoal
    success: bool
    position_error_m: float
    orientation_error_rad: float
    steps: int
    elapsed_s: float
    reason: str
    said_success: bool
    recording: Recording
