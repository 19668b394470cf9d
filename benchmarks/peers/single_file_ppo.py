"""PPO in one file, in the style of CleanRL, on our VecEnv.

`python single_file_ppo.py SEED [key=value ...]` prints JSON; the keys are those of SETTINGS.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import torch
from timing import CHECK_EVERY, Clock, make_env, overridden
from torch import nn
from torch.distributions import Normal

SETTINGS = {  # the best of `search.py single_file_ppo`
    "num_envs": 64,
    "num_steps": 32,
    "epochs": 5,
    "minibatch_size": 256,
    "gamma": 0.9,
    "gae_lambda": 0.9,
    "clip": 0.2,
    "learning_rate": 1e-3,
    "target_kl": 0.02,
    "init_std": 1.0,
    "activation": "tanh",
}


def layer(inputs, outputs, std=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self, obs_dim, action_dim, activation, init_std):
        super().__init__()
        act = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}[activation]
        self.critic = nn.Sequential(
            layer(obs_dim, 64), act(), layer(64, 64), act(), layer(64, 1, 1.0)
        )
        self.actor = nn.Sequential(
            layer(obs_dim, 64), act(), layer(64, 64), act(), layer(64, action_dim, 0.01)
        )
        self.log_std = nn.Parameter(torch.full((1, action_dim), float(np.log(init_std))))

    def forward(self, obs, action=None):
        mean = self.actor(obs)
        normal = Normal(mean, self.log_std.exp().expand_as(mean))
        action = normal.sample() if action is None else action
        log_prob = normal.log_prob(action).sum(1)
        return action, log_prob, normal.entropy().sum(1), self.critic(obs).flatten()


def main(seed: int, overrides: list[str]) -> dict:
    s = SimpleNamespace(**overridden(SETTINGS, overrides))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    np.random.seed(seed)
    env = make_env(s.num_envs)
    agent = Agent(env.obs_dim, env.action_dim, s.activation, s.init_std)
    optimizer = torch.optim.Adam(agent.parameters(), lr=s.learning_rate, eps=1e-5)
    shape = (s.num_steps, s.num_envs)
    observations = torch.zeros((*shape, env.obs_dim))
    actions = torch.zeros((*shape, env.action_dim))
    log_probs, rewards, values, dones = (torch.zeros(shape) for _ in range(4))
    batch = s.num_steps * s.num_envs
    learning_rate = s.learning_rate
    clock = Clock()
    obs = torch.tensor(env.reset(seed))
    steps, next_check = 0, CHECK_EVERY
    while True:
        for t in range(s.num_steps):
            observations[t] = obs
            with torch.no_grad():
                action, log_prob, _, value = agent(obs)
            actions[t], log_probs[t], values[t] = action, log_prob, value
            step = env.step(action.numpy())
            rewards[t] = torch.from_numpy(step.reward)
            if len(step.done_ids):  # time-outs: add the value of the true last observation
                with torch.no_grad():
                    tail = agent.critic(torch.from_numpy(step.final_obs)).flatten()
                cut = torch.from_numpy(step.truncated[step.done_ids])
                rewards[t, step.done_ids] += s.gamma * tail * cut
            dones[t] = torch.from_numpy(step.terminated | step.truncated)
            obs = torch.tensor(step.obs)
        steps += batch
        with torch.no_grad():
            next_value = agent.critic(obs).flatten()
            advantages = torch.zeros_like(rewards)
            last = torch.zeros(s.num_envs)
            for t in reversed(range(s.num_steps)):
                alive = 1.0 - dones[t]
                following = next_value if t == s.num_steps - 1 else values[t + 1]
                delta = rewards[t] + s.gamma * following * alive - values[t]
                last = delta + s.gamma * s.gae_lambda * alive * last
                advantages[t] = last
            returns = advantages + values
        flat = [x.flatten(0, 1) for x in (observations, actions, log_probs, advantages, returns)]
        for _ in range(s.epochs):
            order = torch.randperm(batch)
            for start in range(0, batch, s.minibatch_size):
                o, a, old, advantage, target = (
                    x[order[start : start + s.minibatch_size]] for x in flat
                )
                _, log_prob, entropy, value = agent(o, a)
                log_ratio = log_prob - old
                ratio = log_ratio.exp()
                with torch.no_grad():
                    kl = ((ratio - 1) - log_ratio).mean()
                    if kl > 2 * s.target_kl:
                        learning_rate = max(1e-5, learning_rate / 1.5)
                    elif kl < s.target_kl / 2:
                        learning_rate = min(1e-2, learning_rate * 1.5)
                    optimizer.param_groups[0]["lr"] = learning_rate
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                policy_loss = torch.max(
                    -advantage * ratio, -advantage * ratio.clamp(1 - s.clip, 1 + s.clip)
                ).mean()
                loss = policy_loss + 0.5 * ((value - target) ** 2).mean() - 0.0 * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        if steps >= next_check:
            next_check += CHECK_EVERY

            def act(x):
                with torch.no_grad():
                    return agent.actor(torch.from_numpy(x)).numpy()

            if clock.check(steps, act):
                return clock.result()


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2:])))
