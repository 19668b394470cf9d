"""Advantages worked out by hand, and the recursion against the definition's sum."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlinf_ros_training.storage.gae import gae

GAMMA, LAM = 0.5, 0.5  # γλ = 0.25


def column(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def run(reward, value, next_value, terminated=(), truncated=()):
    steps = range(len(reward))
    advantage, returns = gae(
        column(reward),
        column(value),
        column(next_value),
        column([t in terminated for t in steps], torch.bool),
        column([t in truncated for t in steps], torch.bool),
        GAMMA,
        LAM,
    )
    assert torch.equal(returns, advantage + column(value))
    return advantage.squeeze(1).tolist()


# For all cases: r = 1, 2, 3, 4 and V = 1, 2, 3, 4, and V after the last step is 8.


def test_no_end():
    # δ3 = 4 + 0.5·8 − 4 = 4        A3 = 4
    # δ2 = 3 + 0.5·4 − 3 = 2        A2 = 2 + 0.25·4 = 3
    # δ1 = 2 + 0.5·3 − 2 = 1.5      A1 = 1.5 + 0.25·3 = 2.25
    # δ0 = 1 + 0.5·2 − 1 = 1        A0 = 1 + 0.25·2.25 = 1.5625
    assert run([1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4, 8]) == [1.5625, 2.25, 3.0, 4.0]


def test_termination_in_the_middle():
    # Step 1 ends the task: δ1 = 2 + 0 − 2 = 0, A1 = 0, whatever next_value says there.
    # A0 = 1 + 0.25·0 = 1; A2 and A3 as without an end.
    assert run([1, 2, 3, 4], [1, 2, 3, 4], [2, 99, 4, 8], terminated={1}) == [1.0, 0.0, 3.0, 4.0]


def test_truncation_in_the_middle():
    # Step 1 is cut, its true last observation is worth 10: δ1 = 2 + 0.5·10 − 2 = 5, A1 = 5: the
    # trace does not reach into the next episode. A0 = 1 + 0.25·5 = 2.25; A2, A3 as without an end.
    assert run([1, 2, 3, 4], [1, 2, 3, 4], [2, 10, 4, 8], truncated={1}) == [2.25, 5.0, 3.0, 4.0]


def test_both_at_once_counts_as_terminated():
    assert run([1, 2, 3, 4], [1, 2, 3, 4], [2, 10, 4, 8], terminated={1}, truncated={1}) == [
        1.0,
        0.0,
        3.0,
        4.0,
    ]


def test_ends_at_the_last_step():
    # Terminated: δ3 = 4 − 4 = 0 = A3, A2 = 2 + 0 = 2, A1 = 1.5 + 0.25·2 = 2, A0 = 1 + 0.5 = 1.5
    assert run([1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4, 8], terminated={3}) == [1.5, 2.0, 2.0, 0.0]
    # Truncated with a last observation worth 6 (8 is the next episode's first one, not used):
    # δ3 = 4 + 0.5·6 − 4 = 3 = A3, A2 = 2.75, A1 = 1.5 + 0.6875 = 2.1875, A0 = 1 + 0.546875
    assert run([1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4, 6], truncated={3}) == [
        1.546875,
        2.1875,
        2.75,
        3.0,
    ]


def test_ends_in_consecutive_steps_and_in_other_columns():
    reward = torch.tensor([[1.0, 1.0], [2.0, 2.0]])
    value = torch.tensor([[1.0, 1.0], [2.0, 2.0]])
    next_value = torch.tensor([[4.0, 2.0], [6.0, 8.0]])
    truncated = torch.tensor([[True, False], [True, False]])
    advantage, _ = gae(
        reward, value, next_value, torch.zeros_like(truncated), truncated, GAMMA, LAM
    )
    # Column 0: A0 = 1 + 2 − 1 = 2, A1 = 2 + 3 − 2 = 3.
    # Column 1: A1 = 2 + 4 − 2 = 4, A0 = 1 + 1 − 1 + 0.25·4 = 2.
    assert advantage.tolist() == [[2.0, 2.0], [3.0, 4.0]]


floats = st.floats(-10, 10, width=32)


@settings(deadline=None)
@given(st.data(), st.integers(1, 8), st.floats(0, 1), st.floats(0, 1))
def test_equals_the_sum_of_discounted_deltas(data, steps, gamma, lam):
    def draw(elements):
        return data.draw(st.lists(elements, min_size=steps, max_size=steps))

    reward, value, next_value = draw(floats), draw(floats), draw(floats)
    terminated, truncated = draw(st.booleans()), draw(st.booleans())
    advantage, _ = gae(
        column(reward),
        column(value),
        column(next_value),
        column(terminated, torch.bool),
        column(truncated, torch.bool),
        gamma,
        lam,
    )
    for t in range(steps):
        expected, weight = 0.0, 1.0
        for k in range(t, steps):
            bootstrap = 0.0 if terminated[k] else gamma * next_value[k]
            expected += weight * (reward[k] + bootstrap - value[k])
            weight *= gamma * lam
            if terminated[k] or truncated[k]:
                break
        assert advantage[t, 0].item() == pytest.approx(expected, abs=1e-9)
