"""Reach on a UR5e: the recipes behind the demo and the training benchmark."""

from __future__ import annotations

from rlinf_ros_training.config import (
    EnvConfig,
    EvalConfig,
    ModelConfig,
    PPOConfig,
    RandomizationConfig,
    Recipe,
    RunnerConfig,
)


def reach() -> Recipe:
    """Position and orientation, with a randomised arm: what `make demo` trains."""
    return Recipe(
        name="reach",
        env=EnvConfig(
            task="reach",
            num_envs=256,
            randomization=RandomizationConfig(actuator_gain=0.2, joint_damping=0.3, link_mass=0.1),
        ),
        model=ModelConfig(init_std=0.6),
        ppo=PPOConfig(gamma=0.95, gae_lambda=0.9, minibatch_size=1024),
        runner=RunnerConfig(total_env_steps=4_000_000, stop_at_success=0.985, staleness=1),
        eval=EvalConfig(interval=10, episodes=256, min_train_success=0.5),
    )


def reach_position() -> Recipe:
    """Position only, 2 s episodes: the training benchmark."""
    return Recipe(
        name="reach_position",
        env=EnvConfig(task="reach_position", num_envs=64),
        model=ModelConfig(
            actor_hidden=(64, 64), critic_hidden=(64, 64), init_std=0.6, normalize_obs=False
        ),
        ppo=PPOConfig(gamma=0.9, gae_lambda=0.9, epochs=8, minibatch_size=256),
        runner=RunnerConfig(total_env_steps=400_000, stop_at_success=0.9),
        eval=EvalConfig(interval=2, episodes=256),
    )
