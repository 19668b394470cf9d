"""Wall-clock seconds of training until 90 % success on held-out goals; evaluation is not counted."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from rlinf_ros.contract.load import load_contract
from rlinf_ros.robot.description import load_robot
from rlinf_ros_training.envs.mujoco_env import MujocoVecEnv
from rlinf_ros_training.envs.tasks.reach import ReachPosition

GOAL_RATE = 0.9
EPISODES = 256
HELD_OUT_SEED = 2**31 + 10_000_000
CHECK_EVERY = 2048  # env steps between two checks of the success rate, on all sides
GIVE_UP_S = 90.0


def overridden(settings: dict, overrides: list[str]) -> dict:
    """A copy of `settings` with `key=value` strings applied, each in the type of its default."""
    values = dict(settings)
    for override in overrides:
        key, _, value = override.partition("=")
        values[key] = type(settings[key])(value)
    return values


def make_env(num_envs: int, threads: int = 2, **more) -> MujocoVecEnv:
    """Our VecEnv of the position-only reach."""
    robot = load_robot("ur5e")
    contract = load_contract(robot.path.parent / "contracts" / "reach_position.yaml")
    return MujocoVecEnv(contract, robot, ReachPosition, num_envs, threads=threads, **more)


class Clock:
    """Counts training time from its creation; `check` evaluates with the clock stopped."""

    def __init__(self) -> None:
        self._env = make_env(EPISODES)
        self._seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + EPISODES)
        self.curve: list[tuple[float, int, float]] = []  # seconds, env steps, success rate
        self._spent, self._since = 0.0, time.perf_counter()

    def check(self, env_steps: int, act: Callable[[np.ndarray], np.ndarray]) -> bool:
        """Evaluate deterministically; True when training may stop. act: obs (N, 30) → action (N, 6)."""
        self._spent += time.perf_counter() - self._since
        obs = self._env.reset_to_seeds(self._seeds)
        for _ in range(self._env.max_episode_steps):
            step = self._env.step(np.asarray(act(obs), np.float32))
            obs = step.obs
        rate = float(np.mean(step.success))
        self.curve.append((self._spent, env_steps, rate))
        self._since = time.perf_counter()
        return rate >= GOAL_RATE or self._spent > GIVE_UP_S

    def result(self) -> dict:
        """What the parent reads: reached, seconds, steps, the curve."""
        seconds, steps, rate = self.curve[-1]
        return {
            "reached": rate >= GOAL_RATE,
            "seconds": seconds,
            "env_steps": steps,
            "curve": self.curve,
        }
