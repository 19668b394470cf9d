"""Forward and backward pass of an MLP by hand, without autograd's bookkeeping.

Small networks on a CPU spend nearly half of an update in autograd; this halves the update's time.
tests/training/test_mlp_gradient.py holds it to autograd's gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlinf_ros_training.models.activations import ACTIVATIONS


class MlpGradient:
    """Gradients of one `mlp` for minibatches of a fixed size, in buffers that are reused.

    y = g.forward(x); then g.backward(∂loss/∂y) overwrites the `.grad` of every parameter.
    """

    def __init__(self, network: nn.Sequential, activation: str, size: int) -> None:
        """network: as built by `actor_critic.mlp`, each parameter with a `.grad`. size: B."""
        self._layers = [m for m in network if isinstance(m, nn.Linear)]
        self._activation = ACTIVATIONS[activation]
        self._outputs = [_buffer(layer, size) for layer in self._layers]
        self._grads = [_buffer(layer, size) for layer in self._layers[:-1]]  # by hidden outputs
        self._x = self._outputs[0]

    def forward(self, x: Tensor) -> Tensor:
        """Output (B, last size) for x (B, first size); valid until the next forward."""
        self._x = x
        last = self._layers[-1]
        for layer, y in zip(self._layers, self._outputs, strict=True):
            torch.addmm(layer.bias.data, x, layer.weight.data.t(), out=y)
            if layer is not last:
                self._activation.value_(y)
            x = y
        return x

    def backward(self, grad: Tensor) -> None:
        """Set the gradients for ∂loss/∂y (B, last size) of the last forward."""
        inputs = [self._x, *self._outputs[:-1]]
        for i in range(len(self._layers) - 1, -1, -1):
            layer = self._layers[i]
            torch.mm(grad.t(), inputs[i], out=layer.weight.grad)
            torch.sum(grad, 0, out=layer.bias.grad)
            if i:
                by_input = torch.mm(grad, layer.weight.data, out=self._grads[i - 1])
                self._activation.derivative_(by_input, inputs[i])
                grad = by_input


def _buffer(layer: nn.Linear, size: int) -> Tensor:
    return layer.weight.new_empty((size, layer.out_features), requires_grad=False)
