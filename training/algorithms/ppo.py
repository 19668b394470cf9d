"""PPO: Schulman et al., "Proximal Policy Optimization Algorithms" (2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros_training.algorithms.flat import FlatAdam
from rlinf_ros_training.algorithms.parallel import RunTasks, run_tasks
from rlinf_ros_training.config import PPOConfig
from rlinf_ros_training.models.actor_critic import MlpActorCritic
from rlinf_ros_training.models.mlp_gradient import MlpGradient
from rlinf_ros_training.storage.gae import gae
from rlinf_ros_training.storage.rollout import RolloutStorage

_RATE_FACTOR, _MIN_RATE, _MAX_RATE = 1.5, 1e-5, 1e-2  # of the adaptive schedule


@dataclass
class Batch:
    """B = T · N transitions, ready to learn; own memory, so the storage may be refilled."""

    obs: Tensor  # (B, D) normalised
    action: Tensor  # (B, A)
    log_prob: Tensor  # (B,) under the policy that acted
    value: Tensor  # (B,) before the update
    advantage: Tensor  # (B,)
    returns: Tensor  # (B,)


class PPO:
    """Learns a MlpActorCritic from rollouts.

    Policy and value network share nothing: each has its own Adam and gradient clipping, and the two
    may be learned side by side, with the same weights in the end.
    """

    def __init__(
        self, model: MlpActorCritic, config: PPOConfig, seed: int, run: RunTasks = run_tasks
    ) -> None:
        """run: how the two networks' updates are run, one after the other or side by side."""
        self.model, self.config, self._run = model, config, run
        self._generator = torch.Generator().manual_seed(seed)
        rate = config.value_learning_rate
        self._value_rate = config.learning_rate if rate is None else rate
        self._actor = FlatAdam(model.actor_parameters(), config.learning_rate)
        assert model.log_std.grad is not None
        self._log_std_grad = model.log_std.grad
        self._critic = FlatAdam(model.critic_parameters(), self._value_rate)

    @torch.no_grad()
    def prepare(self, rollouts: Sequence[RolloutStorage]) -> Batch:
        """Update the normaliser with full rollouts and turn them into one batch.

        Raises RlinfError if the environments delivered a number that is not finite.
        """
        model, config = self.model, self.config
        device = model.log_std.device

        def joined(name: str) -> Tensor:
            return torch.cat([getattr(r, name) for r in rollouts], dim=1).to(device)

        obs, reward = joined("obs"), joined("reward")
        _check_finite(obs, "observation")
        _check_finite(reward, "reward")
        model.normalizer.update(obs[:-1])
        obs = model.normalizer(obs)
        values = model.critic(obs).squeeze(-1)
        value, next_value = values[:-1], values[1:].clone()
        first = 0
        for rollout in rollouts:
            final_obs, at = rollout.final_obs()
            rows, columns = at // rollout.num_envs, at % rollout.num_envs + first
            next_value[rows, columns] = model.value(final_obs.to(device))
            first += rollout.num_envs
        advantage, returns = gae(
            reward,
            value,
            next_value,
            joined("terminated"),
            joined("truncated"),
            config.gamma,
            config.gae_lambda,
        )
        if config.normalize_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        return Batch(
            obs=obs[:-1].flatten(0, 1),
            action=joined("action").flatten(0, 1),
            log_prob=joined("log_prob").flatten(),
            value=value.flatten(),
            advantage=advantage.flatten(),
            returns=returns.flatten(),
        )

    def learn(self, batch: Batch, progress: float = 0.0) -> dict[str, float]:
        """One update from a batch; returns metrics.

        progress: part of the run that is done, 0 to 1, for the linear schedule. Raises RlinfError
        if a parameter is no longer finite.
        """
        config = self.config
        if config.schedule == "linear":
            self._actor.learning_rate = config.learning_rate * (1.0 - progress)
            self._critic.learning_rate = self._value_rate * (1.0 - progress)
        count = len(batch.value)
        orders = [torch.randperm(count, generator=self._generator) for _ in range(config.epochs)]
        size = min(count, config.minibatch_size)
        results = self._run(
            {
                "policy update": lambda: self._learn_policy(batch, orders, size),
                "value update": lambda: self._learn_value(batch, orders, size),
            }
        )
        for name, flat in (("policy", self._actor.flat), ("value", self._critic.flat)):
            if not torch.isfinite(flat).all():
                raise RlinfError(
                    f"the {name} network's parameters are no longer finite after an update\n"
                    "  fix: lower ppo.learning_rate or ppo.max_grad_norm, resume from a checkpoint"
                )
        residual = (batch.returns - batch.value).var(correction=0)
        return {
            **results["policy update"],
            **results["value update"],
            "explained_variance": float(1.0 - residual / batch.returns.var(correction=0)),
            "entropy": float(self.model.entropy().detach()),
            "action_std": float(self.model.log_std.detach().exp().mean()),
            "learning_rate": self._actor.learning_rate,
        }

    @torch.no_grad()
    def _learn_policy(self, batch: Batch, orders: list[Tensor], size: int) -> dict[str, float]:
        config, model = self.config, self.model
        low, high = 1.0 - config.clip_range, 1.0 + config.clip_range
        network = MlpGradient(model.actor, model.config.activation, size)
        parts = (batch.obs, batch.action, batch.log_prob, batch.advantage)
        log_ratios = torch.empty(len(orders[0]) // size, size, device=batch.obs.device)
        totals, norms = [], []
        for order in orders:
            order = order[: log_ratios.numel()].to(batch.obs.device)
            minibatches = _minibatches(parts, order, size)
            for (obs, action, old_log_prob, advantage), log_ratio in zip(
                minibatches, log_ratios, strict=True
            ):
                inverse_std = torch.exp(-model.log_std)
                z = (action - network.forward(obs)).mul_(inverse_std)
                torch.sub(model.noise_log_prob(z), old_log_prob, out=log_ratio)
                ratio = log_ratio.exp()
                gain = ratio * advantage
                moves = gain <= ratio.clamp_(low, high).mul_(advantage)  # else it is constant
                # ∂loss/∂log π = −moves · ratio · advantage / B; log π = −Σ (z²/2 + log std) + c
                by_log_prob = gain.mul_(moves).mul_(-1.0 / size).unsqueeze(-1)
                by_log_std = (z.square().sub_(1.0)).mul_(by_log_prob).sum(0)
                network.backward(z.mul_(inverse_std).mul_(by_log_prob))
                self._log_std_grad.copy_(by_log_std.sub_(config.entropy_coef))
                norms.append(self._actor.step(config.max_grad_norm))
            totals.append(_policy_metrics(log_ratios.flatten(), batch.advantage[order], low, high))
            if config.schedule == "adaptive":
                self._adapt_rate(float(totals[-1][1]))
        loss, kl, clipped = torch.stack(totals).mean(0).tolist()
        return {
            "policy_loss": loss,
            "approx_kl": kl,
            "clip_fraction": clipped,
            "policy_grad_norm": float(torch.stack(norms).mean()),
        }

    @torch.no_grad()
    def _learn_value(self, batch: Batch, orders: list[Tensor], size: int) -> dict[str, float]:
        config, model = self.config, self.model
        network = MlpGradient(model.critic, model.config.activation, size)
        parts = (batch.obs, batch.returns, batch.value)
        rows = []
        for order in orders:
            order = order[: len(order) // size * size].to(batch.obs.device)
            for obs, returns, old_value in _minibatches(parts, order, size):
                value = network.forward(obs).squeeze(-1)
                error = value - returns
                loss = error.square()
                if config.value_clip_range is not None:
                    near = (value - old_value).clamp_(
                        -config.value_clip_range, config.value_clip_range
                    )
                    clipped = near.add_(old_value).sub_(returns).square_()
                    error = error * (
                        loss >= clipped
                    )  # where the maximum is clipped, it is constant
                    loss = torch.maximum(loss, clipped)
                network.backward((error / size).unsqueeze(-1))
                norm = self._critic.step(config.max_grad_norm)
                rows.append(torch.stack((0.5 * loss.mean(), norm)))
        loss, norm = torch.stack(rows).mean(0).tolist()
        return {"value_loss": loss, "value_grad_norm": norm}

    def _adapt_rate(self, kl: float) -> None:
        """Keep the policy's change per update near target_kl."""
        rate = self._actor.learning_rate
        if kl > 2.0 * self.config.target_kl:
            self._actor.learning_rate = max(rate / _RATE_FACTOR, _MIN_RATE)
        elif kl < 0.5 * self.config.target_kl:
            self._actor.learning_rate = min(rate * _RATE_FACTOR, _MAX_RATE)

    def state_dict(self) -> dict[str, Any]:
        """Optimisers and random state; the model is saved by its owner."""
        return {
            "actor": self._actor.state_dict(),
            "critic": self._critic.state_dict(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._actor.load_state_dict(state["actor"])
        self._critic.load_state_dict(state["critic"])
        self._generator.set_state(state["generator"])


def _minibatches(parts: Sequence[Tensor], order: Tensor, size: int) -> Iterator[tuple[Tensor, ...]]:
    """Minibatches in the given order, whose length is a multiple of `size`."""
    return zip(*(part.index_select(0, order).split(size) for part in parts), strict=True)


def _policy_metrics(log_ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    """Loss, KL (k3 of Schulman, "Approximating KL divergence", 2020) and clipped part; (3,)."""
    ratio = log_ratio.exp()
    gain = ratio * advantage
    clipped_gain = ratio.clamp(low, high) * advantage
    loss = -torch.minimum(gain, clipped_gain).mean()
    kl = (ratio - 1.0 - log_ratio).mean()
    return torch.stack((loss, kl, (gain > clipped_gain).float().mean()))


def _check_finite(x: Tensor, what: str) -> None:
    bad = ~torch.isfinite(x)
    if bad.any():
        step, env = (int(i) for i in bad.nonzero()[0][:2])
        raise RlinfError(
            f"{what} of environment {env} is not finite at step {step} of the rollout\n"
            "  fix: look for a division by zero in the task, or an unstable simulation"
        )
