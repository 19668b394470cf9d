"""The base of all tasks, and finding a task by name or file."""

from __future__ import annotations

import importlib.util
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rlinf_ros.contract.errors import ConfigError, nearest
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.pipeline.terms import Context
from rlinf_ros.robot.description import RobotDescription

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
    (`context.tool`, `context.position_error`, `context.rotation_error`).
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
        module = importlib.import_module(f"{__package__}.{module_name}")
        return getattr(module, class_name)
    path, _, class_name = name.rpartition(":")
    if not path.endswith(".py"):
        raise ConfigError(
            f"no task '{name}'",
            where="env.task",
            allowed=[*BUILT_IN, "path/to/file.py:ClassName"],
            fix=nearest(name, BUILT_IN),
        )
    if not Path(path).is_file():
        raise ConfigError(f"no such file: {path}", where="env.task")
    spec = importlib.util.spec_from_file_location(f"rlinf_task_{Path(path).stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses in the user's file look their module up
    spec.loader.exec_module(module)
    found = {n for n, o in vars(module).items() if isinstance(o, type) and issubclass(o, Task)}
    if class_name not in found:
        raise ConfigError(
            f"{path} has no Task class '{class_name}'", where="env.task", allowed=sorted(found)
        )
    return getattr(module, class_name)
