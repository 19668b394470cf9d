"""Stable-Baselines3 PPO on the position-only reach.

`python sb3_reach.py SETTING SEED [key=value ...]` prints JSON; the keys are those of the setting.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from gym_reach import GymReach, check_agreement
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from timing import CHECK_EVERY, Clock, make_env, overridden
from torch import nn

_SEARCHED = {
    "gamma": 0.9,
    "gae_lambda": 0.9,
    "learning_rate": 1e-3,
    "clip_range": 0.2,
    "init_std": 1.0,
    "activation": "tanh",
    "hidden": 64,
}
SETTINGS = {
    # as such a task is usually set up, and was first measured
    "usual": {
        "env": "dummy",
        "num_envs": 16,
        "n_steps": 128,
        "batch_size": 256,
        "n_epochs": 5,
        **_SEARCHED,
        "gamma": 0.97,
        "gae_lambda": 0.95,
        "learning_rate": 3e-4,
        "hidden": 128,
    },
    # the best of `search.py sb3_dummy`: on SB3's own vector env
    "dummy": {
        "env": "dummy",
        "num_envs": 16,
        "n_steps": 128,
        "batch_size": 256,
        "n_epochs": 5,
        **_SEARCHED,
    },
    # the best of `search.py sb3_batch`: on our VecEnv
    "batch": {
        "env": "batch",
        "num_envs": 64,
        "n_steps": 32,
        "batch_size": 256,
        "n_epochs": 5,
        **_SEARCHED,
    },
}


class BatchedReach(VecEnv):
    """Our VecEnv behind SB3's interface."""

    def __init__(self, num_envs: int) -> None:
        self.inner = make_env(num_envs)
        space = GymReach()
        super().__init__(num_envs, space.observation_space, space.action_space)

    def reset(self):
        return self.inner.reset(int(self._seeds[0] or 0)).copy()

    def step_async(self, actions):
        self._actions = actions

    def step_wait(self):
        step = self.inner.step(self._actions)
        infos = [{} for _ in range(self.num_envs)]
        for i, final in zip(step.done_ids, step.final_obs, strict=True):
            infos[i] = {
                "terminal_observation": final,
                "TimeLimit.truncated": bool(step.truncated[i]),
            }
        return step.obs.copy(), step.reward.copy(), step.terminated | step.truncated, infos

    def close(self):
        self.inner.close()

    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False] * self.num_envs

    def get_attr(self, attr_name, indices=None):
        return [None] * self.num_envs

    def set_attr(self, attr_name, value, indices=None):
        raise NotImplementedError

    def env_method(self, method_name, *args, indices=None, **kwargs):
        raise NotImplementedError


class StopAtGoal(BaseCallback):
    """Checks after each rollout that completes CHECK_EVERY further steps."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.next = clock, CHECK_EVERY

    def _on_rollout_start(self) -> bool:
        if self.num_timesteps < self.next:
            return True
        self.next += CHECK_EVERY
        policy = self.model.policy
        policy.set_training_mode(False)

        def act(obs: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return policy._predict(torch.as_tensor(obs), deterministic=True).numpy()

        self.stop = self.clock.check(self.num_timesteps, act)
        return True

    stop = False

    def _on_step(self) -> bool:
        return not self.stop


def main(setting: str, seed: int, overrides: list[str]) -> dict:
    values = overridden(SETTINGS[setting], overrides)
    take = values.pop
    torch.set_num_threads(1)
    check_agreement()
    kind, num_envs = take("env"), take("num_envs")
    env = BatchedReach(num_envs) if kind == "batch" else DummyVecEnv([GymReach] * num_envs)
    clock = Clock()
    model = PPO(
        "MlpPolicy",
        env,
        policy_kwargs={
            "net_arch": [take("hidden")] * 2,
            "activation_fn": {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}[take("activation")],
            "log_std_init": float(np.log(take("init_std"))),
        },
        seed=seed,
        device="cpu",
        **values,
    )
    model.learn(3_000_000, callback=StopAtGoal(clock))
    return clock.result()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
