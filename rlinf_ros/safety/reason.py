"""Reason: why a state was entered, a command changed or a run ended, for programs and people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """Machine-readable causes; the same numbers as in rlinf_ros_msgs/Reason, never reused."""

    NONE = 0
    NOT_READY = 1
    STALE_INPUT = 10
    INCOMPLETE_INPUT = 11
    FROZEN_INPUT = 12
    NON_FINITE = 13
    WRONG_LENGTH = 14
    WRONG_JOINTS = 15
    CLOCK_JUMP = 16
    WRONG_INTERFACE = 17
    OUT_OF_ORDER = 18
    POSITION_LIMIT = 20
    VELOCITY_LIMIT = 21
    STEP_LIMIT = 22
    TRACKING_LIMIT = 23
    START_TOO_FAR = 24
    ACCELERATION_LIMIT = 25
    JERK_LIMIT = 26
    WORKSPACE_LIMIT = 27
    TOOL_SPEED_LIMIT = 28
    SELF_COLLISION = 29
    HEARTBEAT_LOST = 30
    STOP_REQUESTED = 31
    RESUME_REQUIRED = 32
    OVERRUN = 33
    PAUSED = 34
    CHUNK_UNDERRUN = 35
    CONTRACT_MISMATCH = 40
    POLICY_ERROR = 41
    BUNDLE_ERROR = 42
    INVALID_GOAL = 43
    REMOTE_POLICY = 44
    ROBOT_NOT_RUNNING = 50
    SAFETY_STOP = 51
    CONTROLLER_INACTIVE = 52
    SPEED_SCALED = 53
    GOAL_REACHED = 60
    TIME_LIMIT = 61
    CANCELLED = 62
    PREEMPTED = 63


@dataclass(frozen=True)
class Reason:
    """A cause with what was seen and what is allowed. Units are those of the code.

    topic, joint: empty if none is concerned. value, limit: NaN if there is none. text: one
    sentence, what happened. remedy: one sentence, what to do.
    """

    code: Code
    text: str = ""
    remedy: str = ""
    topic: str = ""
    joint: str = ""
    value: float = math.nan
    limit: float = math.nan

    def __bool__(self) -> bool:
        return self.code is not Code.NONE

    def __str__(self) -> str:
        return f"{self.code.name}: {self.text}" + (f" ({self.remedy})" if self.remedy else "")


NO_REASON = Reason(Code.NONE)
