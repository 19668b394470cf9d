"""Deterministic evaluation on given seeds, one episode each, with a confidence interval."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros_training.config import EvalConfig
from rlinf_ros_training.envs.base import BoolArray, FloatArray, VecEnv
from rlinf_ros_training.models.actor_critic import MlpActorCritic
from rlinf_ros_training.stop import Stopped

PolicyFunction = Callable[[FloatArray], FloatArray]  # (N, D) → (N, A)
EnvFactory = Callable[[int], VecEnv]  # number of environments → VecEnv

_Z_95 = 1.959963984540054  # 97.5 % quantile of the normal distribution


@dataclass(frozen=True)
class EvalResult:
    """What E episodes gave, in the order of their seeds."""

    success: BoolArray  # (E,)
    episode_return: FloatArray  # (E,)
    episode_length: npt.NDArray[np.intp]  # (E,)
    errors: dict[str, npt.NDArray[np.float64]]  # (E,) each, at the episode's end

    @property
    def episodes(self) -> int:
        """E."""
        return len(self.success)

    @property
    def successes(self) -> int:
        """Number of episodes that ended in success."""
        return int(self.success.sum())

    @property
    def rate(self) -> float:
        """Part of the episodes that ended in success."""
        return self.successes / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the rate."""
        return wilson_interval(self.successes, self.episodes)

    def summary(self) -> dict[str, float]:
        """Numbers for logs and reports."""
        low, high = self.interval
        return {
            "success_rate": self.rate,
            "success_low": low,
            "success_high": high,
            "episode_return": float(self.episode_return.mean()),
            "episode_length": float(self.episode_length.mean()),
            **{f"{name}_mean": float(error.mean()) for name, error in self.errors.items()},
            **{
                f"{name}_p95": float(np.quantile(error, 0.95))
                for name, error in self.errors.items()
            },
        }


def evaluate(
    policy: PolicyFunction, make_env: EnvFactory, seeds: Sequence[int], num_envs: int = 64
) -> EvalResult:
    """Run one episode per seed in an environment made for it; see `evaluate_in`."""
    env = make_env(min(num_envs, len(seeds)))
    try:
        return evaluate_in(env, policy, seeds)
    finally:
        env.close()


def evaluate_in(env: VecEnv, policy: PolicyFunction, seeds: Sequence[int]) -> EvalResult:
    """Run one episode per seed, `env.num_envs` at a time; what follows an episode is ignored.

    As an episode depends on nothing but its seed, the number of environments does not change the
    result. Raises RlinfError if an episode outlasts env.max_episode_steps.
    """
    if not seeds:
        raise ValueError("no seeds")
    n = env.num_envs
    returns, lengths = np.zeros(len(seeds), np.float32), np.zeros(len(seeds), np.intp)
    success, errors = np.zeros(len(seeds), bool), dict[str, npt.NDArray[np.float64]]()
    for first in range(0, len(seeds), n):
        chunk = list(seeds[first : first + n])
        running = np.arange(n) < len(chunk)
        obs = env.reset_to_seeds(chunk + chunk[-1:] * (n - len(chunk)))  # the last one fills up
        for _ in range(env.max_episode_steps):
            step = env.step(policy(obs))
            obs = step.obs
            ended = running[step.done_ids]  # rows of this step's results that count
            rows = first + step.done_ids[ended]
            success[rows] = step.success[ended]
            returns[rows] = step.episode_return[ended]
            lengths[rows] = step.episode_length[ended]
            for name, values in step.errors.items():
                errors.setdefault(name, np.full(len(seeds), np.nan))[rows] = values[ended]
            running[step.done_ids] = False
            if not running.any():
                break
        if running.any():
            raise RlinfError(
                f"episodes of seeds {[chunk[i] for i in np.flatnonzero(running)]} did not end "
                f"within max_episode_steps = {env.max_episode_steps}"
            )
    return EvalResult(success, returns, lengths, errors)


class Evaluator:
    """Evaluates a model again and again in one environment, made when first needed."""

    def __init__(self, make_env: EnvFactory, model: MlpActorCritic, config: EvalConfig) -> None:
        self._make_env, self._model, self._config = make_env, model, config
        self._env: VecEnv | None = None
        self.seconds = 0.0  # spent in `run`

    def run(self, check: Callable[[], None] = lambda: None) -> EvalResult | None:
        """The result on the configured seeds, or None if `check` raised Stopped between steps."""
        began, config = time.perf_counter(), self._config
        if self._env is None:
            self._env = self._make_env(min(config.num_envs, config.episodes))
        act = model_policy(self._model)

        def policy(obs: FloatArray) -> FloatArray:
            check()
            return act(obs)

        try:
            seeds = range(config.first_seed, config.first_seed + config.episodes)
            return evaluate_in(self._env, policy, seeds)
        except Stopped:
            return None
        finally:
            self.seconds += time.perf_counter() - began

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()


def model_policy(model: MlpActorCritic) -> PolicyFunction:
    """The model's deterministic action as a function on NumPy arrays."""

    @torch.no_grad()
    def policy(obs: FloatArray) -> FloatArray:
        device = model.log_std.device
        action: FloatArray = model.mean_action(torch.from_numpy(obs).to(device)).cpu().numpy()
        return action

    return policy


def wilson_interval(successes: int, episodes: int) -> tuple[float, float]:
    """95 % confidence interval of a rate: Wilson, "Probable inference" (1927), eq. 4."""
    rate, z2 = successes / episodes, _Z_95**2
    center = (rate + z2 / (2 * episodes)) / (1 + z2 / episodes)
    spread = rate * (1 - rate) / episodes + z2 / (4 * episodes**2)
    half = _Z_95 / (1 + z2 / episodes) * math.sqrt(spread)
    return max(0.0, center - half), min(1.0, center + half)
