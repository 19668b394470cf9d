"""The base of all tasks, and finding a task by name or file."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rlinf_ros.contract.errors import ConfigError, nearest
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.pipeline.terms import Context
from rlinf_ros.robot.description import RobotDescription
from rlinf_ros_training.userfile import is_reference, load_object

Array = npt.NDArray[np.float64]
BUILT_IN = {"reach": "reach:Reach", "reach_position": "reach:ReachPosition"}


@dataclass
class Episodes:
    """How n episodes start: joints (n, J) in rad; goal (n, 3) in m and (n, 4) xyzw, in base_link."""

    joint_position: Array
    goal_position: Array
    goal_quat_xyzw: Array


class Task(ABC):
    """Subclass it: a contract's name, an episode length, `sample`, `reward` and `success`.

    All methods work on whole batches. `context` gives the raw state and what is derived from it
    (`context.tool_position`, `context.position_error`, `context.rotation_error`).
    """

    contract: ClassVar[str]
    episode_s: ClassVar[float]

    def __init__(self, robot: RobotDescription, kinematics: Kinematics) -> None:
        self.robot, self.kinematics = robot, kinematics

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> Episodes:
        """Draw the start and goal of n episodes."""

    @abstractmethod
    def reward(self, context: Context, action: Array) -> Array:
        """Reward (N,) of the state reached and the action (N, A) that was applied."""

    @abstractmethod
    def success(self, context: Context) -> npt.NDArray[np.bool_]:
        """Whether the task is fulfilled now, (N,); it counts at the episode's end."""

    def terminated(self, context: Context) -> npt.NDArray[np.bool_] | None:
        """Whether the episode ends here for good, (N,); None = never."""
        return None

    def errors(self, context: Context) -> dict[str, Array]:
        """Figures (N,) to report at the episode's end, by name with unit."""
        return {}


def find_task(name: str) -> type[Task]:
    """`reach`, or `path/to/file.py:ClassName` for a task of your own. Raises ConfigError."""
    if name in BUILT_IN:
        module_name, class_name = BUILT_IN[name].split(":")
        return getattr(importlib.import_module(f"{__package__}.{module_name}"), class_name)
    if not is_reference(name):
        raise ConfigError(
            f"no task '{name}'",
            where="env.task",
            allowed=[*BUILT_IN, "path/to/file.py:ClassName"],
            fix=nearest(name, BUILT_IN),
        )
    task = load_object(name, "env.task")
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise ConfigError(f"'{name}' is not a Task class", where="env.task")
    return task
