"""One episode per seed, whatever the batch size; the interval against known values."""

import numpy as np
import pytest

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros_training.evaluation import evaluate, wilson_interval
from tests.training.toy_env import ToyEnv

SEEDS = range(2**31, 2**31 + 37)


def towards_goal(obs):
    return (3.0 * obs[:, 2:]).astype(np.float32)


def away(obs):
    return np.where(obs[:, :2] > 0, 1, -1).astype(np.float32)


def half_good(obs):
    """Good from the left half of the box, else leaves it: early ends beside late ones."""
    return np.where(obs[:, :1] < 0, towards_goal(obs), away(obs))


@pytest.mark.parametrize("policy", [towards_goal, away, half_good])
def test_batch_size_does_not_matter(policy):
    results = [evaluate(policy, ToyEnv, SEEDS, num_envs=n) for n in (1, 5, 37, 64)]
    for result in results[1:]:
        np.testing.assert_array_equal(result.success, results[0].success)
        np.testing.assert_array_equal(result.episode_return, results[0].episode_return)
        np.testing.assert_array_equal(result.episode_length, results[0].episode_length)
        np.testing.assert_array_equal(
            result.errors["position_error_m"], results[0].errors["position_error_m"]
        )


def test_counts_and_summary():
    good, bad = evaluate(towards_goal, ToyEnv, SEEDS), evaluate(away, ToyEnv, SEEDS)
    assert (good.successes, good.episodes, good.rate) == (37, 37, 1.0)
    assert bad.successes == 0
    assert (bad.episode_length < 20).all()
    summary = good.summary()
    assert summary["success_rate"] == 1.0
    assert summary["success_low"] == pytest.approx(37 / (37 + 1.96**2), rel=1e-4)  # n / (n + z²)
    assert summary["position_error_m_mean"] <= summary["position_error_m_p95"] < 0.1


def test_each_episode_depends_on_its_own_seed_alone():
    whole = evaluate(half_good, ToyEnv, SEEDS, num_envs=8)
    swapped = evaluate(half_good, ToyEnv, list(SEEDS)[::-1], num_envs=8)
    np.testing.assert_array_equal(whole.episode_return, swapped.episode_return[::-1])


def test_an_episode_that_never_ends_is_named():
    class Endless(ToyEnv):
        def step(self, action):
            self._age[0] = 0
            return super().step(action)

    with pytest.raises(RlinfError, match=r"seeds \[7\] did not end within max_episode_steps = 20"):
        evaluate(towards_goal, Endless, [7, 8, 9])


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [
        # Newcombe, "Two-sided confidence intervals for the single proportion" (1998), table I
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval_against_published_values(successes, episodes, low, high):
    assert wilson_interval(successes, episodes) == pytest.approx((low, high), abs=5e-5)


def test_environment_is_closed():
    made = []

    def make(n):
        made.append(ToyEnv(n))
        return made[-1]

    evaluate(towards_goal, make, [1, 2])
    assert [e.closed for e in made] == [True]
    assert made[0].num_envs == 2
