"""Collecting rollouts with a policy whose parameters stand still meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rlinf_ros_training.envs.base import VecEnv
from rlinf_ros_training.models.actor_critic import MlpActorCritic
from rlinf_ros_training.storage.rollout import RolloutStorage


class Collector:
    """One VecEnv, its storage and its random numbers.

    `begin`, then `run`: it fills the storage, or stops between two steps when asked to; a later
    `run`, also in another process after `load_state_dict`, goes on to the same result.
    """

    def __init__(self, env: VecEnv, policy: MlpActorCritic, steps: int, seed: int) -> None:
        """policy: acts on the CPU; read only. steps: T per rollout."""
        self.env, self.policy = env, policy
        self.storage = RolloutStorage(steps, env.num_envs, env.obs_dim, env.action_dim)
        self.episodes: list[tuple[float, float, float]] = []  # return, length, success; drained
        self.seconds = 0.0  # spent in `run` since `begin`
        self._generator = torch.Generator().manual_seed(seed)
        self._obs = env.reset(seed).copy()

    @torch.no_grad()
    def begin(self) -> None:
        """Start the next rollout: draw its noise, forget the last one."""
        self.storage.clear()
        self.storage.start(self._obs)
        noise = self.storage.noise.normal_(generator=self._generator)
        self.storage.log_prob.copy_(self.policy.noise_log_prob(noise))
        self.seconds = 0.0

    @torch.no_grad()
    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Step until the storage is full or `stop()`."""
        started = time.perf_counter()
        storage, std = self.storage, self.policy.log_std.exp()
        while not storage.full and not stop():
            t = storage.filled
            action = self.policy.mean_action(storage.obs[t]).addcmul_(storage.noise[t], std)
            step = self.env.step(action.numpy())
            storage.add(action, step)
            self.episodes += zip(
                step.episode_return.tolist(),
                step.episode_length.tolist(),
                step.success.tolist(),
                strict=True,
            )
        self._obs = storage.obs[storage.filled].numpy().copy()
        self.seconds += time.perf_counter() - started

    def state_dict(self) -> dict[str, Any]:
        """Environment, random state and the rollout as far as it is; tensors, strings, numbers."""
        return {
            "obs": torch.from_numpy(self._obs),
            "env": {k: _to_tensor(v) for k, v in self.env.state_dict().items()},
            "storage": self.storage.state_dict(),
            "generator": self._generator.get_state(),
            "episodes": [list(e) for e in self.episodes],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.env.load_state_dict({k: _to_numpy(v) for k, v in state["env"].items()})
        self.storage.load_state_dict(state["storage"])
        self._obs = state["obs"].numpy()
        self._generator.set_state(state["generator"])
        self.episodes = [(e[0], e[1], e[2]) for e in state["episodes"]]


class Stages:
    """The collectors of a run, one per stage (group of environments), and their behaviour policy."""

    def __init__(
        self, envs: Sequence[VecEnv], behaviour: MlpActorCritic, steps: int, seeds: Sequence[int]
    ) -> None:
        self.behaviour = behaviour
        self._collectors = [
            Collector(env, behaviour, steps, int(seed))
            for env, seed in zip(envs, seeds, strict=True)
        ]

    @property
    def full(self) -> bool:
        """Whether the rollout is complete."""
        return all(c.storage.full for c in self._collectors)

    @property
    def seconds(self) -> float:
        """What the rollout took."""
        return max(c.seconds for c in self._collectors)

    def tasks(
        self, model: MlpActorCritic, stop: Callable[[], bool]
    ) -> dict[str, Callable[[], None]]:
        """Tasks that collect with the parameters that `model` has now.

        A rollout that a stop cut short is continued with the parameters that it began with.
        """
        if not self._collectors[0].storage.started:
            self.behaviour.load_state_dict(model.state_dict())
            for collector in self._collectors:
                collector.begin()
        return {f"collect {i}": partial(c.run, stop) for i, c in enumerate(self._collectors)}

    def storages(self) -> list[RolloutStorage]:
        """The rollout, stage by stage."""
        return [c.storage for c in self._collectors]

    def take_episode_means(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, if any did."""
        episodes = [episode for c in self._collectors for episode in c.episodes]
        for collector in self._collectors:
            collector.episodes.clear()
        if not episodes:
            return {}
        means = np.mean(episodes, axis=0).tolist()
        return dict(zip(("episode_return", "episode_length", "success_rate"), means, strict=True))

    def clear(self) -> None:
        """Forget the rollout, so that the next one can begin."""
        for collector in self._collectors:
            collector.storage.clear()

    def close(self) -> None:
        """Close the environments."""
        for collector in self._collectors:
            collector.env.close()

    def state_dict(self) -> list[dict[str, Any]]:
        """Of each collector; the behaviour policy is saved by its owner."""
        return [c.state_dict() for c in self._collectors]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Take over what `state_dict` returned."""
        for collector, state in zip(self._collectors, states, strict=True):
            collector.load_state_dict(state)


def _to_tensor(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def _to_numpy(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value
