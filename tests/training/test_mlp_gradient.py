"""The hand-written gradients are autograd's, and FlatAdam is torch's Adam."""

import pytest
import torch

from rlinf_ros_training.algorithms.flat import FlatAdam
from rlinf_ros_training.models.activations import ACTIVATIONS, Tanh
from rlinf_ros_training.models.actor_critic import mlp
from rlinf_ros_training.models.mlp_gradient import MlpGradient

SIZE = 16


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("sizes", [(5, 3), (5, 8, 3), (5, 8, 7, 6, 2)])
def test_gradients_equal_autograd(activation, sizes):
    network = mlp(sizes, activation, 1.0).double()
    for p in network.parameters():
        torch.nn.init.normal_(p)
        p.grad = torch.full_like(p, torch.nan)  # must be overwritten, not added to
    gradient = MlpGradient(network, activation, SIZE)
    for _ in range(2):  # the buffers are reused
        x = torch.randn(SIZE, sizes[0], dtype=torch.float64)
        by_y = torch.randn(SIZE, sizes[-1], dtype=torch.float64)
        y = network(x)
        expected = torch.autograd.grad((y * by_y).sum(), list(network.parameters()))
        with torch.no_grad():
            torch.testing.assert_close(gradient.forward(x), y, rtol=1e-12, atol=1e-12)
            gradient.backward(by_y)
        for p, e in zip(network.parameters(), expected, strict=True):
            torch.testing.assert_close(p.grad, e, rtol=1e-10, atol=1e-10)


def test_tanh_is_tanh():
    x = torch.linspace(-20, 20, 100_001)
    assert (Tanh()(x) - torch.tanh(x)).abs().max() < 3e-7
    assert Tanh()(torch.tensor([torch.inf, -torch.inf])).tolist() == [1.0, -1.0]


def test_flat_adam_equals_torch_adam_with_clipping():
    network, twin = mlp((4, 8, 2), "tanh", 1.0), mlp((4, 8, 2), "tanh", 1.0)
    twin.load_state_dict(network.state_dict())
    flat = FlatAdam(list(network.parameters()), 1e-2)
    torchs = torch.optim.Adam(twin.parameters(), lr=1e-2, eps=1e-5)
    for k in range(20):
        x, target = torch.randn(32, 4), torch.randn(32, 2) * 10.0 ** (k % 3)
        for net in (network, twin):
            loss = (net(x) - target).square().mean()
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        torch.testing.assert_close(flat.step(0.5), norm)
        torchs.step()
        torchs.zero_grad(set_to_none=False)
        flat.grad.zero_()
    for p, q in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def test_flat_adam_continues_from_its_state():
    def make():
        torch.manual_seed(1)
        network = mlp((3, 4, 1), "relu", 1.0)
        return network, FlatAdam(list(network.parameters()), 1e-2)

    def work(adam, steps):
        for k in steps:
            adam.grad.copy_(torch.sin(torch.arange(len(adam.grad)) * (k + 1.0)))
            adam.step(1.0)

    whole, adam = make()
    work(adam, range(6))
    first, adam = make()
    work(adam, range(3))
    state, weights = adam.state_dict(), first.state_dict()
    second, adam = make()
    second.load_state_dict(weights)
    adam.load_state_dict(state)
    work(adam, range(3, 6))
    for p, q in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q)
