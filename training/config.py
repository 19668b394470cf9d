"""Typed recipes: frozen dataclasses, `key.sub=value` overrides, and YAML to save them with a run.

A recipe is a Python function that returns a `Recipe`. Every value is checked when it is set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import yaml

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.fields import parse_yaml
from rlinf_ros_training.section import (
    Section,
    flatten,
    from_mapping,
    limited,
    plain,
    replaced,
)

# Training draws its seeds below this number, evaluation from it upwards: held out by construction.
FIRST_HELD_OUT_SEED = 2**31


@dataclass(frozen=True)
class RandomizationConfig(Section):
    """Relative half-widths of the uniform factors drawn per episode; 0 = nominal."""

    path: ClassVar[str] = "env.randomization"
    actuator_gain: float = limited(0.0, 0.0, 1.0)
    joint_damping: float = limited(0.0, 0.0, 1.0)
    link_mass: float = limited(0.0, 0.0, 1.0)


@dataclass(frozen=True)
class EnvConfig(Section):
    """What is simulated. `num_envs` environments in all, in `stages` groups of their own VecEnv."""

    path: ClassVar[str] = "env"
    robot: str = "ur5e"
    task: str = "reach"
    contract: str | None = None  # None: the one that the task names
    num_envs: int = limited(128, 1)
    stages: int = limited(1, 1)
    threads: int = limited(0, 0)  # physics threads per stage; 0 = one per core
    randomization: RandomizationConfig = field(default_factory=RandomizationConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_envs % self.stages:
            raise ConfigError(
                f"{self.stages} stages do not divide {self.num_envs} environments",
                where="env.stages",
                fix="make env.num_envs a multiple of env.stages",
            )


@dataclass(frozen=True)
class ModelConfig(Section):
    """Policy and value network."""

    path: ClassVar[str] = "model"
    actor_hidden: tuple[int, ...] = limited((128, 128), 1)
    critic_hidden: tuple[int, ...] = limited((128, 128), 1)
    activation: Literal["tanh", "elu", "relu"] = "tanh"
    init_std: float = limited(1.0, 1e-6)
    normalize_obs: bool = True  # by running mean and variance; a contract may scale well enough
    obs_clip: float = limited(10.0, 1e-6)


@dataclass(frozen=True)
class PPOConfig(Section):
    """Proximal policy optimisation."""

    path: ClassVar[str] = "ppo"
    gamma: float = limited(0.97, 0.0, 1.0)
    gae_lambda: float = limited(0.9, 0.0, 1.0)
    learning_rate: float = limited(1e-3, 0.0)
    value_learning_rate: float | None = limited(None, 0.0)  # None: learning_rate
    schedule: Literal["fixed", "linear", "adaptive"] = "adaptive"  # adaptive: policy only, by KL
    target_kl: float = limited(0.02, 0.0)
    epochs: int = limited(5, 1)
    minibatch_size: int = limited(512, 1)
    clip_range: float = limited(0.2, 0.0)
    value_clip_range: float | None = limited(None, 0.0)  # None: not clipped
    entropy_coef: float = limited(0.0, 0.0)
    max_grad_norm: float = limited(1.0, 0.0)  # of policy and value gradient, each
    normalize_advantage: bool = True


@dataclass(frozen=True)
class RunnerConfig(Section):
    """Length and order of a run."""

    path: ClassVar[str] = "runner"
    seed: int = limited(0, 0, FIRST_HELD_OUT_SEED - 1)
    total_env_steps: int = limited(1_000_000, 1)
    rollout_steps: int = limited(32, 1)  # control steps per environment between two updates
    stop_at_success: float | None = limited(None, 0.0, 1.0)  # evaluated success rate that is enough
    staleness: Literal[0, 1] = 0  # 1: a rollout is collected while the one before it is learned
    overlap: bool = True  # threads for what may run side by side; results are the same
    device: str = "cpu"  # of model and learning
    checkpoint_interval: int = limited(50, 1)  # updates
    keep_checkpoints: int = limited(3, 1)  # newest ones, beside the best
    timeout_s: float = limited(600.0, 1e-3)  # for one rollout or one update


@dataclass(frozen=True)
class EvalConfig(Section):
    """Deterministic evaluation on held-out seeds, in a batch size of its own."""

    path: ClassVar[str] = "eval"
    interval: int = limited(10, 0)  # updates; 0 = only at the end
    episodes: int = limited(256, 1)
    num_envs: int = limited(64, 1)
    first_seed: int = limited(FIRST_HELD_OUT_SEED, FIRST_HELD_OUT_SEED)
    min_train_success: float = limited(0.0, 0.0, 1.0)  # skip while training succeeds less often


@dataclass(frozen=True)
class Recipe(Section):
    """A full training run."""

    name: str = "run"
    env: EnvConfig = field(default_factory=EnvConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    runner: RunnerConfig = field(default_factory=RunnerConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)


def apply_overrides(recipe: Recipe, overrides: Iterable[str]) -> Recipe:
    """`recipe` with `key.sub=value` texts applied in order.

    Texts are read by the field's type: `ppo.learning_rate=1e-3`, `model.actor_hidden=64,64`,
    `runner.stop_at_success=none`. Raises ConfigError for an unknown key or a wrong value.
    """
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(
                "an override has the form key.sub=value", where=override, fix=f"write {key}=..."
            )
        recipe = replaced(recipe, key.strip().split("."), text.strip(), key.strip())
    return recipe


def to_yaml(recipe: Recipe) -> str:
    """The resolved recipe as YAML text; `from_yaml` gives it back."""
    return yaml.safe_dump(plain(recipe), sort_keys=False)


def from_yaml(text: str, where: str = "recipe") -> Recipe:
    """Read what `to_yaml` wrote; keys that are absent take their default."""
    return from_mapping(Recipe, parse_yaml(text, where), where)


# What may differ when a run is resumed: how long, how fast, how watched.
RESUMABLE = (
    "name",
    "eval.",
    "env.threads",
    "runner.total_env_steps",
    "runner.stop_at_success",
    "runner.overlap",
    "runner.device",
    "runner.checkpoint_interval",
    "runner.keep_checkpoints",
    "runner.timeout_s",
)


def check_resumable(recipe: Recipe, saved: Recipe) -> None:
    """Raise ConfigError if a run of `saved` cannot be continued as `recipe`."""
    now, before = flatten(recipe), flatten(saved)
    for key, value in now.items():
        if value != before[key] and not key.startswith(RESUMABLE):
            raise ConfigError(
                f"is {value!r}, the run was started with {before[key]!r}",
                where=key,
                fix="resume with the recipe of the run, or start a new run",
            )
