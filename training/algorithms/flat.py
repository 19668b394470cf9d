"""Adam over one flat buffer: small networks spend less time on clipping and stepping that way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class FlatAdam:
    """Adam (Kingma & Ba, 2015); the parameters and their gradients become views of two tensors."""

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-5,
    ) -> None:
        """Moves the parameters into one buffer and gives each a `.grad`."""
        self.learning_rate, self._betas, self._epsilon = learning_rate, betas, epsilon
        self.flat = torch.cat([p.detach().flatten() for p in parameters])
        self.grad = torch.zeros_like(self.flat)
        start = 0
        for p in parameters:
            end = start + p.numel()
            p.data = self.flat[start:end].view_as(p)
            p.grad = self.grad[start:end].view_as(p)
            start = end
        self._mean = torch.zeros_like(self.flat)
        self._square = torch.zeros_like(self.flat)
        self._steps = 0

    def step(self, max_grad_norm: float) -> Tensor:
        """Scale the gradient's 2-norm to at most max_grad_norm and step; the norm before, ()."""
        norm = torch.linalg.vector_norm(self.grad)
        self.grad.mul_((max_grad_norm / (norm + 1e-6)).clamp_(max=1.0))
        first, second = self._betas
        self._steps += 1
        self._mean.lerp_(self.grad, 1.0 - first)
        self._square.mul_(second).addcmul_(self.grad, self.grad, value=1.0 - second)
        scale = (self._square / (1.0 - second**self._steps)).sqrt_().add_(self._epsilon)
        rate = self.learning_rate / (1.0 - first**self._steps)
        self.flat.addcdiv_(self._mean, scale, value=-rate)
        return norm

    def state_dict(self) -> dict[str, Any]:
        """Moments, steps and learning rate; the parameters belong to the model."""
        return {
            "mean": self._mean.clone(),
            "square": self._square.clone(),
            "steps": self._steps,
            "learning_rate": self.learning_rate,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._steps, self.learning_rate = state["steps"], state["learning_rate"]
