"""The two ros2_control controllers that the twin offers, as plain state machines.

Both follow the originals where a policy's guard can notice: what is dropped, what stops the
controller, what is kept. Vectors are (J,) float64 in controller order, rad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros.pipeline.joints import JointError, JointReader

Vector = npt.NDArray[np.float64]


class CommandError(RlinfError, ValueError):
    """A message that a controller refuses; `update` raising it deactivates the controller."""


class ForwardController:
    """forward_position_controller: passes the newest command on, unchanged, until the next one.

    No command yet: writes nothing. There is no time-out: the last command stays while the
    controller is active and is forgotten when it is deactivated.
    """

    def __init__(self, joint_count: int) -> None:
        self._count = joint_count
        self._data: Vector | None = None
        self.active = False

    def activate(self) -> None:
        """Start without a command."""
        self._data, self.active = None, True

    def deactivate(self) -> None:
        """Forget the command; further ones are not taken."""
        self._data, self.active = None, False

    def receive(self, data: Sequence[float]) -> None:
        """Take a message's data. Raises CommandError if it is dropped: not finite, not active."""
        if not self.active:
            raise CommandError("command dropped: the controller is not active")
        command = np.array(data, dtype=np.float64)
        if not np.all(np.isfinite(command)):
            raise CommandError(f"command dropped: not finite: {command.tolist()}")
        self._data = command if command.size else None  # empty counts as no command yet

    def update(self) -> Vector | None:
        """Target for this cycle, None before the first command. Raises CommandError on a wrong
        length."""
        if self._data is not None and len(self._data) != self._count:
            raise CommandError(
                f"command size ({len(self._data)}) does not match number of interfaces "
                f"({self._count})"
            )
        return self._data


@dataclass(frozen=True)
class TrajectoryPoint:
    """Positions by the message's joint names, due `time_s` after the trajectory's start."""

    time_s: float
    positions: Sequence[float]


class TrajectoryController:
    """Joint trajectory controller: linear between the points, the last point is held.

    The first piece leads from the target at the moment of receipt to the first point. A new
    trajectory replaces the running one.
    """

    def __init__(self, joint_names: Sequence[str], prefix: str = "") -> None:
        self._reader = JointReader(joint_names, prefix)
        self._times: Vector | None = None
        self._positions: npt.NDArray[np.float64] | None = None
        self.active = False

    def activate(self) -> None:
        """Start without a trajectory."""
        self._times, self.active = None, True

    def deactivate(self) -> None:
        """Forget the trajectory."""
        self._times, self.active = None, False

    def receive(
        self,
        joint_names: Sequence[str],
        points: Sequence[TrajectoryPoint],
        *,
        start_s: float,
        now_s: float,
        current: Vector,
    ) -> None:
        """Take a trajectory that starts at `start_s`. Raises CommandError if it is rejected.

        current: target now, controller order. Every joint must be named once, point times must
        rise, the end must not lie in the past.
        """
        if not self.active:
            raise CommandError("trajectory rejected: the controller is not active")
        if not points:
            raise CommandError("trajectory rejected: it has no points")
        expected = self._reader.joint_names
        if len(joint_names) != len(expected):
            raise CommandError(
                f"trajectory rejected: {len(joint_names)} joints, the controller has "
                f"{len(expected)}"
            )
        try:
            rows = [self._reader.read(joint_names, p.positions, "positions") for p in points]
        except JointError as error:
            raise CommandError(f"trajectory rejected: {error}") from None
        times = [p.time_s for p in points]
        if not all(math.isfinite(t) for t in times) or not np.all(np.isfinite(rows)):
            raise CommandError("trajectory rejected: a time or position is not finite")
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise CommandError(f"trajectory rejected: time_from_start does not rise: {times}")
        if start_s + times[-1] < now_s:
            raise CommandError("trajectory rejected: it ends in the past")
        due = [min(now_s, start_s + times[0]), *(start_s + t for t in times)]
        self._times, self._positions = np.array(due), np.array([current, *rows])

    def update(self, now_s: float) -> Vector | None:
        """Target at `now_s`, None before the first trajectory."""
        if self._times is None or self._positions is None:
            return None
        later = int(np.searchsorted(self._times, now_s, side="right"))
        if later == 0:
            return self._positions[0]
        if later == len(self._times):
            return self._positions[-1]
        t0, t1 = self._times[later - 1], self._times[later]
        share = (now_s - t0) / (t1 - t0)
        return self._positions[later - 1] * (1.0 - share) + self._positions[later] * share
