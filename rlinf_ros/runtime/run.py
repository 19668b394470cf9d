"""Run: one goal from its start to its end, and why it ended. Times are seconds of one clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract.errors import ConfigError
from ..safety.reason import Code, Reason
from .goal import Goal


@dataclass(frozen=True)
class RunLimits:
    """When a run ends.

    dwell_s: time within both tolerances that counts as reached. patience_s: time without progress
    (no usable input, a guard that holds) after which the run is given up.
    """

    duration_s: float
    position_tolerance_m: float
    orientation_tolerance_rad: float
    stop_on_success: bool
    dwell_s: float = 0.2
    patience_s: float = 1.0

    def check(self) -> None:
        """Raise ConfigError for a value that makes no sense."""
        for name in ("duration_s", "position_tolerance_m", "orientation_tolerance_rad"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ConfigError(f"must be > 0, got {value!r}", where=name)


# Ends a run at once: nothing will change without an operator.
_FINAL = (Code.STOP_REQUESTED, Code.RESUME_REQUIRED)


class Run:
    """Follows a goal's progress; `update` once per control step."""

    def __init__(self, goal: Goal, limits: RunLimits, now_s: float) -> None:
        self.goal, self.limits, self.started_s = goal, limits, now_s
        self.steps = 0
        self.position_error_m = self.orientation_error_rad = np.nan
        self._inside_since_s: float | None = None
        self._hindered_since_s: float | None = None

    def elapsed_s(self, now_s: float) -> float:
        """Since the start."""
        return now_s - self.started_s

    @property
    def within_tolerance(self) -> bool:
        """Whether the tool is at the goal now."""
        return (
            self.position_error_m <= self.limits.position_tolerance_m
            and self.orientation_error_rad <= self.limits.orientation_tolerance_rad
        )

    def update(
        self,
        now_s: float,
        position_error_m: float,
        orientation_error_rad: float,
        hindrance: Reason | None = None,
        final: bool = False,
    ) -> Reason | None:
        """The reason why the run ends now, or None.

        hindrance: why there is no progress; final: it ends the run without patience.
        """
        limits = self.limits
        self.position_error_m = position_error_m
        self.orientation_error_rad = orientation_error_rad
        if hindrance is None:
            self._hindered_since_s = None
        else:
            if self._hindered_since_s is None:
                self._hindered_since_s = now_s
            waited_s = now_s - self._hindered_since_s
            if final or hindrance.code in _FINAL or waited_s >= limits.patience_s:
                return hindrance
        if not self.within_tolerance:
            self._inside_since_s = None
        elif self._inside_since_s is None:
            self._inside_since_s = now_s
        dwelt = self._inside_since_s is not None and now_s - self._inside_since_s >= limits.dwell_s
        timed_out = self.elapsed_s(now_s) >= limits.duration_s
        if (limits.stop_on_success and dwelt) or (timed_out and self.within_tolerance):
            return Reason(
                Code.GOAL_REACHED,
                f"the tool is {position_error_m:.4g} m and {orientation_error_rad:.4g} rad away",
                value=position_error_m,
                limit=limits.position_tolerance_m,
            )
        if timed_out:
            return Reason(
                Code.TIME_LIMIT,
                f"after {limits.duration_s:g} s the tool is {position_error_m:.4g} m and "
                f"{orientation_error_rad:.4g} rad from the goal",
                "give more time, or check that the goal is within the policy's training range",
                value=self.elapsed_s(now_s),
                limit=limits.duration_s,
            )
        return None
