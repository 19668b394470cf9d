"""Gaussian policy and value function as two separate MLPs behind one observation normaliser."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlinf_ros_training.config import ModelConfig
from rlinf_ros_training.models.activations import ACTIVATIONS
from rlinf_ros_training.models.normalizer import RunningNormalizer

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


class MlpActorCritic(nn.Module):
    """π(a|o) = N(actor(ô), diag(exp(log_std))²), V(o) = critic(ô), ô = normalizer(o).

    The standard deviation does not depend on the state. Actions are not clipped here: the
    environment's action pipeline does that, as on the robot. Actor and critic share no parameters,
    so they can be learned side by side.
    """

    def __init__(self, obs_dim: int, action_dim: int, config: ModelConfig) -> None:
        super().__init__()
        self.obs_dim, self.action_dim, self.config = obs_dim, action_dim, config
        self.normalizer = RunningNormalizer(obs_dim, clip=config.obs_clip)
        self.normalizer.freeze(not config.normalize_obs)  # frozen from the start, it only clips
        self.actor = mlp((obs_dim, *config.actor_hidden, action_dim), config.activation, 0.01)
        self.critic = mlp((obs_dim, *config.critic_hidden, 1), config.activation, 1.0)
        self.log_std = nn.Parameter(torch.full((action_dim,), math.log(config.init_std)))

    def mean_action(self, obs: Tensor) -> Tensor:
        """The deterministic action (..., A) for raw observations (..., D)."""
        mean: Tensor = self.actor(self.normalizer(obs))
        return mean

    def forward(self, obs: Tensor) -> Tensor:
        """Same as `mean_action`: what is exported."""
        return self.mean_action(obs)

    def value(self, obs: Tensor) -> Tensor:
        """V (...,) of raw observations (..., D)."""
        value: Tensor = self.critic(self.normalizer(obs))
        return value.squeeze(-1)

    def act(self, obs: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, ...]:
        """Sample: action (..., A), its log-probability (...,) and V (...,) for raw observations."""
        mean = self.mean_action(obs)
        noise = torch.empty_like(mean).normal_(generator=generator)
        action = mean + noise * self.log_std.exp()
        return action, self.noise_log_prob(noise), self.value(obs)

    def evaluate(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability (...,) of actions (..., A), entropy () and V (...,); differentiable."""
        return self.log_prob(self.mean_action(obs), action), self.entropy(), self.value(obs)

    def log_prob(self, mean: Tensor, action: Tensor) -> Tensor:
        """log N(action | mean, std²) summed over the action's A components; (...,)."""
        return self.noise_log_prob((action - mean) * torch.exp(-self.log_std))

    def noise_log_prob(self, noise: Tensor) -> Tensor:
        """log-probability of the action mean + std · noise, for noise (..., A); (...,)."""
        constant = self.log_std.sum() + self.action_dim * _LOG_SQRT_2PI
        return noise.square().sum(-1) * -0.5 - constant

    def entropy(self) -> Tensor:
        """Entropy () of the action distribution, in nats."""
        return self.log_std.sum() + self.action_dim * (0.5 + _LOG_SQRT_2PI)

    def actor_parameters(self) -> list[nn.Parameter]:
        """What the policy loss moves."""
        return [*self.actor.parameters(), self.log_std]

    def critic_parameters(self) -> list[nn.Parameter]:
        """What the value loss moves."""
        return list(self.critic.parameters())


def mlp(sizes: Sequence[int], activation: str, last_gain: float) -> nn.Sequential:
    """Linear layers of `sizes` with activations between them and orthogonal initial weights.

    Gains √2 inside and `last_gain` at the end, biases 0: Andrychowicz et al., "What Matters In
    On-Policy Reinforcement Learning?" (2020), with a small last policy layer.
    """
    layers: list[nn.Module] = []
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        last = i == len(sizes) - 2
        linear = nn.Linear(fan_in, fan_out)
        nn.init.orthogonal_(linear.weight, last_gain if last else math.sqrt(2.0))
        nn.init.zeros_(linear.bias)
        layers += [linear] if last else [linear, ACTIVATIONS[activation].module()]
    return nn.Sequential(*layers)
