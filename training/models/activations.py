"""Activations of small networks by name: module, in-place value, in-place derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

_aten = torch.ops.aten


class Tanh(nn.Module):
    """tanh(x) as 2·sigmoid(2x) − 1, which torch computes two to three times faster on CPUs.

    Absolute error < 3e-7 in float32. Exports as plain Mul, Sigmoid, Sub.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        return torch.sigmoid(x * 2.0) * 2.0 - 1.0


class Activation(NamedTuple):
    """One activation f, y = f(x)."""

    module: Callable[[], nn.Module]
    value_: Callable[[Tensor], object]  # x becomes y
    derivative_: Callable[[Tensor, Tensor], object]  # (gradient by y, y): becomes gradient by x


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(
        Tanh,
        lambda x: x.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0),
        lambda grad, y: _aten.tanh_backward.grad_input(grad, y, grad_input=grad),
    ),
    "elu": Activation(
        nn.ELU,
        lambda x: nn.functional.elu_(x),
        lambda grad, y: _aten.elu_backward.grad_input(
            grad, 1.0, 1.0, 1.0, True, y, grad_input=grad
        ),
    ),
    "relu": Activation(
        nn.ReLU,
        lambda x: x.relu_(),
        lambda grad, y: _aten.threshold_backward.grad_input(grad, y, 0.0, grad_input=grad),
    ),
}
