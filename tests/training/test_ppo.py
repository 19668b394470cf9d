"""PPO: gradients against autograd, bootstrapping from rollouts, threads, and that it learns."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros_training.algorithms.parallel import run_tasks
from rlinf_ros_training.algorithms.ppo import PPO, Batch
from rlinf_ros_training.collector import Collector
from rlinf_ros_training.config import ModelConfig, PPOConfig
from rlinf_ros_training.evaluation import evaluate, model_policy
from rlinf_ros_training.models.actor_critic import MlpActorCritic
from rlinf_ros_training.storage.rollout import RolloutStorage
from tests.training.toy_env import ToyEnv

SMALL = ModelConfig(actor_hidden=(16, 16), critic_hidden=(24,))


def make_model(seed=0, config=SMALL):
    torch.manual_seed(seed)
    return MlpActorCritic(4, 2, config)


def random_batch(size=64, seed=1):
    g = torch.Generator().manual_seed(seed)
    obs, action = torch.randn(size, 4, generator=g), torch.randn(size, 2, generator=g)
    mean = torch.randn(size, 2, generator=g) * 0.2
    log_prob = torch.distributions.Normal(mean, 1.0).log_prob(action).sum(-1)
    value, advantage, returns = torch.randn(3, size, generator=g)
    return Batch(obs, action, log_prob, value, advantage, returns)


@pytest.mark.parametrize("value_clip", [None, 0.3])
@pytest.mark.parametrize("activation", ["tanh", "elu", "relu"])
def test_gradients_are_those_of_the_written_loss(activation, value_clip):
    """One minibatch against the textbook loss through autograd and torch.distributions."""
    config = PPOConfig(
        epochs=1,
        minibatch_size=64,
        max_grad_norm=1e9,
        entropy_coef=0.01,
        value_clip_range=value_clip,
        schedule="fixed",
    )
    model = make_model(config=dataclasses.replace(SMALL, activation=activation, init_std=0.7))
    reference = make_model(config=model.config)
    reference.load_state_dict(model.state_dict())
    batch, ppo = random_batch(), PPO(model, config, 0)
    metrics = ppo.learn(batch)

    policy = torch.distributions.Normal(reference.actor(batch.obs), reference.log_std.exp())
    ratio = torch.exp(policy.log_prob(batch.action).sum(-1) - batch.log_prob)
    assert ((ratio < 0.8) | (ratio > 1.2)).any(), "the case must contain clipped ratios"
    surrogate = torch.min(ratio * batch.advantage, ratio.clamp(0.8, 1.2) * batch.advantage).mean()
    entropy = torch.distributions.Normal(0.0, reference.log_std.exp()).entropy().sum()
    (-surrogate - 0.01 * entropy).backward()
    value = reference.critic(batch.obs).squeeze(-1)
    error = (value - batch.returns) ** 2
    if value_clip:
        near = batch.value + (value - batch.value).clamp(-value_clip, value_clip)
        error = torch.max(error, (near - batch.returns) ** 2)
    (0.5 * error.mean()).backward()

    for flat, parameters in (
        (ppo._actor, reference.actor_parameters()),
        (ppo._critic, reference.critic_parameters()),
    ):
        expected = torch.cat([p.grad.flatten() for p in parameters])
        torch.testing.assert_close(flat.grad, expected, rtol=1e-4, atol=1e-6)
    assert metrics["policy_loss"] == pytest.approx(-surrogate.item(), abs=1e-5)
    assert metrics["value_loss"] == pytest.approx(0.5 * error.mean().item(), rel=1e-4)
    assert metrics["policy_grad_norm"] == pytest.approx(ppo._actor.grad.norm().item(), rel=1e-4)


def filled(n, seed):
    """A rollout of three steps on random numbers, with both kinds of ends."""
    rng = np.random.default_rng(seed)
    storage = RolloutStorage(3, n, 4, 2)
    storage.obs.copy_(torch.from_numpy(rng.normal(size=(4, n, 4))))
    storage.action.copy_(torch.from_numpy(rng.normal(size=(3, n, 2))))
    storage.reward.copy_(torch.from_numpy(rng.normal(size=(3, n))))
    storage.filled = 3
    return storage


def test_prepare_bootstraps_from_the_true_last_observation_in_each_rollout():
    model, config = make_model(), PPOConfig(gamma=0.9, gae_lambda=0.0, normalize_advantage=False)
    a, b = filled(2, 1), filled(3, 2)
    final = torch.tensor([[1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 1.0, 0.5]])
    b.truncated[1, 2] = b.terminated[2, 0] = True
    b._final_obs, b._final_at = [final[:1], final[1:]], [torch.tensor([5]), torch.tensor([6])]
    batch = PPO(model, config, 0).prepare([a, b])

    with torch.no_grad():  # with λ = 0 the return is r + γ V(next)
        after = torch.cat([a.obs, b.obs], dim=1)[1:].clone()
        after[1, 2 + 2] = final[0]
        expected = torch.cat([a.reward, b.reward], dim=1) + 0.9 * model.value(after)
        expected[2, 2] = b.reward[2, 0]
    torch.testing.assert_close(batch.returns.view(3, 5), expected)
    assert model.normalizer.count == 3 * 5, "the observation after the rollout is seen next time"


def test_the_first_minibatch_has_ratio_one():
    env, model = ToyEnv(8), make_model()
    behaviour = make_model()
    collector = Collector(env, behaviour, 6, seed=3)
    ppo = PPO(model, PPOConfig(epochs=1, minibatch_size=48, schedule="fixed"), 0)
    for _ in range(3):
        model.normalizer.freeze()  # else the statistics move between acting and learning
        behaviour.load_state_dict(model.state_dict())
        collector.begin()
        collector.run()
        metrics = ppo.learn(ppo.prepare([collector.storage]))
        assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-6)
        assert metrics["clip_fraction"] == 0.0


def test_storage_records_what_the_environment_did():
    env, policy = ToyEnv(5), make_model()
    collector = Collector(env, policy, 30, seed=3)
    collector.begin()
    collector.run()
    storage = collector.storage
    with torch.no_grad():
        mean, std = policy.mean_action(storage.obs[:-1]), policy.log_std.exp()
        expected = torch.distributions.Normal(mean, std).log_prob(storage.action).sum(-1)
    torch.testing.assert_close(storage.log_prob, expected, rtol=1e-4, atol=1e-4)
    final_obs, at = storage.final_obs()
    done = storage.terminated | storage.truncated
    assert sorted(at.tolist()) == done.flatten().nonzero().flatten().tolist()
    assert len(collector.episodes) == len(at) >= 5
    # The true last observation continues the step before it, the one in `obs` is of a new episode.
    t, n = at // 5, at % 5
    moved = storage.obs[t, n, :2] + 0.1 * storage.action[t, n].clamp(-1, 1)
    torch.testing.assert_close(final_obs[:, :2], moved)
    assert not torch.isclose(storage.obs[t + 1, n, :2], moved).all(1).any()


def test_act_and_evaluate_agree_with_torch_distributions():
    model, obs = make_model(), torch.randn(7, 4)
    model.normalizer.update(torch.randn(50, 4) * 3.0 + 1.0)
    action, log_prob, value = model.act(obs, torch.Generator().manual_seed(0))
    policy = torch.distributions.Normal(model.mean_action(obs), model.log_std.exp())
    torch.testing.assert_close(log_prob, policy.log_prob(action).sum(-1))
    again = model.evaluate(obs, action)
    expected = (log_prob, policy.entropy().sum(-1)[0], value)
    for a, b in zip(again, expected, strict=True):
        torch.testing.assert_close(a, b)
    assert torch.equal(action, model.act(obs, torch.Generator().manual_seed(0))[0])


def test_threads_do_not_change_the_weights():
    models = [make_model(), make_model()]
    ppos = [
        PPO(m, PPOConfig(minibatch_size=20), 5, partial(run_tasks, threads=t))
        for m, t in zip(models, (False, True), strict=True)
    ]
    for k in range(4):
        metrics = [ppo.learn(random_batch(seed=k)) for ppo in ppos]
        assert metrics[0] == metrics[1]
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(p, q)


def test_adaptive_rate_follows_kl():
    ppo = PPO(make_model(), PPOConfig(learning_rate=1e-3, target_kl=1e-6), 0)
    assert ppo.learn(random_batch())["learning_rate"] == pytest.approx(1e-3 / 1.5**5)
    ppo = PPO(make_model(), PPOConfig(learning_rate=1e-3, target_kl=1e6), 0)
    assert ppo.learn(random_batch())["learning_rate"] == pytest.approx(1e-3 * 1.5**5)
    ppo = PPO(make_model(), PPOConfig(learning_rate=1e-3, schedule="linear"), 0)
    assert ppo.learn(random_batch(), progress=0.75)["learning_rate"] == pytest.approx(2.5e-4)


def test_not_finite_numbers_are_named():
    ppo, storage = PPO(make_model(), PPOConfig(), 0), filled(3, 0)
    storage.reward[2, 1] = torch.nan
    with pytest.raises(RlinfError, match="reward of environment 1 is not finite at step 2"):
        ppo.prepare([storage])
    batch = random_batch()
    batch.returns[:] = torch.inf
    with pytest.raises(RlinfError, match="value network's parameters are no longer finite"):
        ppo.learn(batch)


def test_it_learns_to_push_the_point():
    env, model, behaviour = ToyEnv(32), make_model(), make_model()
    collector = Collector(env, behaviour, 32, seed=0)
    ppo = PPO(model, PPOConfig(minibatch_size=256, learning_rate=3e-3), 0)
    seeds = range(2**31, 2**31 + 100)
    before = evaluate(model_policy(model), ToyEnv, seeds).rate
    for _ in range(30):
        behaviour.load_state_dict(model.state_dict())
        collector.begin()
        collector.run()
        ppo.learn(ppo.prepare([collector.storage]))
    assert before < 0.3
    assert evaluate(model_policy(model), ToyEnv, seeds).rate > 0.95
