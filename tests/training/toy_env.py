"""A VecEnv of a few lines of NumPy: push a point to a goal in the plane."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlinf_ros_training.envs.base import FloatArray, Step


class ToyEnv:
    """obs = (point, goal − point); actions move the point by 0.1; leaving the box ends the task."""

    obs_dim, action_dim, control_dt_s, max_episode_steps = 4, 2, 0.02, 20

    def __init__(self, num_envs: int, on_step: Callable[[int], None] = lambda k: None) -> None:
        self.num_envs, self.steps, self._on_step = num_envs, 0, on_step
        self._rng = np.random.default_rng(0)
        self._point = np.zeros((num_envs, 2))
        self._goal = np.zeros((num_envs, 2))
        self._age = np.zeros(num_envs, dtype=np.intp)
        self._return = np.zeros(num_envs)
        self._obs = np.zeros((num_envs, 4), dtype=np.float32)  # reused, as real environments may
        self.closed = False

    def reset(self, seed: int) -> FloatArray:
        self._rng = np.random.default_rng(seed)
        self._place(np.arange(self.num_envs), self._rng.uniform(-0.5, 0.5, (self.num_envs, 4)))
        self._age[:] = self._rng.integers(0, self.max_episode_steps, self.num_envs)
        return self._observe()

    def reset_to_seeds(self, seeds: Sequence[int]) -> FloatArray:
        draws = [np.random.default_rng(s).uniform(-0.5, 0.5, 4) for s in seeds]
        self._place(np.arange(self.num_envs), np.stack(draws))
        return self._observe()

    def step(self, action: FloatArray) -> Step:
        self._on_step(self.steps)
        self.steps += 1
        self._point += 0.1 * np.clip(action, -1, 1)
        self._age += 1
        distance = np.sqrt(((self._goal - self._point) ** 2).sum(1))
        reward = (-distance).astype(np.float32)
        self._return += reward
        terminated = np.abs(self._point).max(1) > 1.0
        truncated = self._age >= self.max_episode_steps
        ids = np.flatnonzero(terminated | truncated)
        obs = self._observe()
        result = Step(
            obs,
            reward,
            terminated,
            truncated,
            ids,
            obs[ids],
            self._return[ids].astype(np.float32),
            self._age[ids].copy(),
            distance[ids] < 0.1,
            {"position_error_m": distance[ids]},
        )
        if len(ids):
            self._place(ids, self._rng.uniform(-0.5, 0.5, (len(ids), 4)))
            self._observe()
        return result

    def state_dict(self) -> dict[str, Any]:
        return {
            "point": self._point,
            "goal": self._goal,
            "age": self._age,
            "return": self._return,
            "rng": json.dumps(self._rng.bit_generator.state),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._point[:], self._goal[:] = state["point"], state["goal"]
        self._age[:], self._return[:] = state["age"], state["return"]
        self._rng.bit_generator.state = json.loads(state["rng"])

    def close(self) -> None:
        self.closed = True

    def _place(self, ids: Any, draws: Any) -> None:
        self._point[ids], self._goal[ids] = draws[:, :2], draws[:, 2:]
        self._age[ids], self._return[ids] = 0, 0.0

    def _observe(self) -> FloatArray:
        self._obs[:] = np.concatenate([self._point, self._goal - self._point], axis=1)
        return self._obs
