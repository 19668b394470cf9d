"""One rollout of N environments: what the policy saw, did and got, step by step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlinf_ros_training.envs.base import FloatArray, Step


class RolloutStorage:
    """Preallocated tensors of T steps × N environments on the CPU, filled by `add`.

    Observations are stored raw. Values are not stored: the learner computes them in one batch.
    `noise` and `log_prob` hold the whole rollout from its start: action = mean + std · noise.
    """

    def __init__(self, steps: int, num_envs: int, obs_dim: int, action_dim: int) -> None:
        self.steps, self.num_envs = steps, num_envs
        self.obs = torch.zeros(steps + 1, num_envs, obs_dim)  # the last row follows the last action
        self.action = torch.zeros(steps, num_envs, action_dim)
        self.noise = torch.zeros(steps, num_envs, action_dim)
        self.log_prob = torch.zeros(steps, num_envs)
        self.reward = torch.zeros(steps, num_envs)
        self.terminated = torch.zeros(steps, num_envs, dtype=torch.bool)
        self.truncated = torch.zeros(steps, num_envs, dtype=torch.bool)
        self.started, self.filled = False, 0  # steps present
        self._final_obs: list[Tensor] = []
        self._final_at: list[Tensor] = []

    @property
    def full(self) -> bool:
        """Whether all T steps are present."""
        return self.filled == self.steps

    def clear(self) -> None:
        """Start over; the tensors are reused."""
        self.started, self.filled = False, 0
        self._final_obs.clear()
        self._final_at.clear()

    def start(self, obs: FloatArray) -> None:
        """Set the observation (N, D) that the first action answers."""
        self.obs[0] = torch.from_numpy(obs)
        self.started = True

    def add(self, action: Tensor, step: Step) -> None:
        """Append the action (N, A) that answered `obs[filled]` and what came of it."""
        t = self.filled
        self.action[t] = action
        self.obs[t + 1] = torch.from_numpy(step.obs)
        self.reward[t] = torch.from_numpy(step.reward)
        if len(step.done_ids):
            self.terminated[t] = torch.from_numpy(step.terminated)
            self.truncated[t] = torch.from_numpy(step.truncated)
            self._final_obs.append(torch.from_numpy(step.final_obs).clone())
            self._final_at.append(torch.from_numpy(step.done_ids) + t * self.num_envs)
        else:
            self.terminated[t] = False
            self.truncated[t] = False
        self.filled = t + 1

    def final_obs(self) -> tuple[Tensor, Tensor]:
        """True last observations (K, D) of the episodes that ended, and their t · N + n (K,)."""
        if not self._final_obs:
            return torch.zeros(0, self.obs.shape[-1]), torch.zeros(0, dtype=torch.long)
        return torch.cat(self._final_obs), torch.cat(self._final_at)

    def state_dict(self) -> dict[str, Any]:
        """The steps present, to continue a rollout or to learn it later."""
        final_obs, final_at = self.final_obs()
        state: dict[str, Any] = {name: getattr(self, name)[: self.filled] for name in _FILLED}
        state |= {"obs": self.obs[: self.filled + 1]}
        state |= {name: getattr(self, name) for name in _DRAWN}
        return {name: tensor.clone() for name, tensor in state.items()} | {
            "started": self.started,
            "filled": self.filled,
            "final_obs": final_obs,
            "final_at": final_at,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.clear()
        for name in (*_FILLED, *_DRAWN, "obs"):
            getattr(self, name)[: len(state[name])] = state[name]
        self.started, self.filled = state["started"], state["filled"]
        self._final_obs, self._final_at = [state["final_obs"]], [state["final_at"]]


_FILLED = ("action", "reward", "terminated", "truncated")
_DRAWN = ("noise", "log_prob")
