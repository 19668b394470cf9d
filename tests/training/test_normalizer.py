"""Running statistics against numpy, in any split of the data."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlinf_ros_training.models.normalizer import RunningNormalizer


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_any_split_gives_the_statistics_of_all(seed, sizes):
    rng = np.random.default_rng(seed)
    scale, offset = 10.0 ** rng.uniform(-3, 3, 4), rng.uniform(-1e3, 1e3, 4)
    parts = [rng.normal(size=(n, 4)) * scale + offset for n in sizes]
    normalizer = RunningNormalizer(4)
    for part in parts:
        normalizer.update(torch.from_numpy(part))
    everything = np.concatenate(parts)
    np.testing.assert_allclose(normalizer.mean, everything.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(normalizer.var, everything.var(0), rtol=1e-6, atol=1e-9)
    assert normalizer.count == len(everything)


def test_normalises_and_clips():
    normalizer = RunningNormalizer(2, clip=3.0)
    normalizer.update(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))  # mean 2, 20; std 1, 10
    x = torch.tensor([[[2.0, 20.0], [3.0, 10.0]], [[100.0, -100.0], [1.0, 25.0]]])
    expected = [[[0.0, 0.0], [1.0, -1.0]], [[3.0, -3.0], [-1.0, 0.5]]]
    torch.testing.assert_close(normalizer(x), torch.tensor(expected), atol=1e-6, rtol=0)
    assert normalizer(x).dtype == torch.float32


def test_a_constant_feature_stays_finite():
    normalizer = RunningNormalizer(1)
    normalizer.update(torch.full((100, 1), 0.1))
    assert normalizer(torch.tensor([[0.1]])).item() == pytest.approx(0.0, abs=1e-3)
    assert normalizer(torch.tensor([[5.0]])).item() == 10.0


def test_frozen_statistics_stay_and_are_saved():
    normalizer = RunningNormalizer(3)
    normalizer.update(torch.randn(10, 3))
    normalizer.freeze()
    before = {k: v.clone() for k, v in normalizer.state_dict().items()}
    normalizer.update(torch.randn(10, 3))
    assert all(torch.equal(v, before[k]) for k, v in normalizer.state_dict().items())
    other = RunningNormalizer(3)
    other.load_state_dict(before)
    assert other.frozen
    other.freeze(False)
    other.update(torch.randn(10, 3))
    assert other.count == 20
