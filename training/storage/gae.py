"""Generalised advantage estimation with exact ends of episodes."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns (advantage + value), each (T, N).

    reward, value: r_t and V(o_t), (T, N). next_value: V of the observation that followed action t
    in the *same* episode, (T, N): for a truncated step that of the true last observation.
    terminated, truncated: (T, N) bool. After a termination nothing follows, so nothing is
    bootstrapped; a truncation is bootstrapped; both end the trace. Both at once is a termination.

    Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation"
    (2015), eq. 16; ends of episodes: Pardo et al., "Time Limits in Reinforcement Learning" (2018).
    """
    delta = reward + gamma * next_value.masked_fill(terminated, 0.0) - value
    decay = (gamma * lam) * (~(terminated | truncated)).to(delta.dtype)
    advantage = torch.empty_like(delta)
    trace = torch.zeros_like(delta[0])
    for t in range(delta.shape[0] - 1, -1, -1):
        trace = torch.addcmul(delta[t], decay[t], trace, out=advantage[t])
    return advantage, advantage + value
