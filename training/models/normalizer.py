"""Observation normaliser: running mean and variance, kept in the model so that exports hold it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningNormalizer(nn.Module):
    """(x − mean) / std, clipped; the statistics grow by `update` until `frozen`.

    Batches are merged by Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for
    computing sample variances" (1979), in float64. Before the first update it only clips.
    """

    mean: Tensor
    var: Tensor
    count: Tensor
    frozen: Tensor

    def __init__(self, size: int, clip: float = 10.0, epsilon: float = 1e-8) -> None:
        """size: D. clip: bound of the output, in standard deviations. epsilon: added to var."""
        super().__init__()
        self.clip, self.epsilon = clip, epsilon
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("var", torch.ones(size, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("frozen", torch.zeros((), dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        """Normalised x, float32, same shape (..., D)."""
        scale = torch.rsqrt(self.var + self.epsilon).float()
        return ((x - self.mean.float()) * scale).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Merge the statistics of x (..., D); does nothing when frozen."""
        if self.frozen:
            return
        x = x.reshape(-1, x.shape[-1]).double()
        count = self.count + x.shape[0]
        delta = x.mean(0) - self.mean
        m2 = (
            self.var * self.count
            + x.var(0, correction=0) * x.shape[0]
            + delta.square() * self.count * x.shape[0] / count
        )
        self.mean += delta * x.shape[0] / count
        self.var.copy_(m2 / count)
        self.count.copy_(count)

    def freeze(self, frozen: bool = True) -> None:
        """Stop (or resume) learning the statistics."""
        self.frozen.fill_(frozen)
