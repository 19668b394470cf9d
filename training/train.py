"""Train a recipe, evaluate and export a run: the calls behind `rlinf-train`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.policy.bundle import PolicyBundle
from rlinf_ros.policy.verify import VerifyReport

from .checkpoint import find_checkpoint, load_model
from .config import FIRST_HELD_OUT_SEED, Recipe, apply_overrides, to_yaml
from .envs.factory import make_env
from .evaluation import EvalResult, evaluate, model_policy
from .export import export_bundle
from .models.actor_critic import MlpActorCritic
from .recipes.catalogue import find_recipe
from .runner import Runner, RunResult

# Evaluations during a run choose when it stops and which checkpoint is best: figures that are reported
# come from other episodes.
REPORT_SEED = FIRST_HELD_OUT_SEED + 1_000_000


@dataclass(frozen=True)
class TrainedPolicy:
    """The model of a run's checkpoint, with the recipe it was trained by."""

    recipe: Recipe
    model: MlpActorCritic
    checkpoint: Path
    env_steps: int
    train_seconds: float


def train(recipe: str, run_dir: str | Path, overrides: Iterable[str] = ()) -> RunResult:
    """Start a run of a named recipe (or `file.py:function`) in a new directory."""
    return Runner(apply_overrides(find_recipe(recipe), overrides), run_dir, make_env).run()


def resume(run_dir: str | Path, overrides: Iterable[str] = ()) -> RunResult:
    """Go on with a run where it was stopped."""
    return Runner.resume(run_dir, make_env, overrides).run()


def load_policy(run: str | Path) -> TrainedPolicy:
    """The policy of a checkpoint file, or of a run directory's best evaluated one."""
    if not Path(run).exists():
        raise ConfigError("no such run directory or checkpoint", where=str(run))
    path = find_checkpoint(run)
    model, recipe, content = load_model(path)
    steps = content["update"] * recipe.runner.rollout_steps * recipe.env.num_envs
    return TrainedPolicy(recipe, model, path, steps, content["train_seconds"])


def evaluate_policy(
    policy: TrainedPolicy, episodes: int, first_seed: int = REPORT_SEED
) -> EvalResult:
    """Deterministic evaluation on seeds that neither training nor its evaluations used."""
    return evaluate(
        model_policy(policy.model),
        lambda n: make_env(policy.recipe.env, n, training=False),
        range(first_seed, first_seed + episodes),
        policy.recipe.eval.num_envs,
    )


def export_policy(
    policy: TrainedPolicy, path: str | Path, evaluation: EvalResult | None = None
) -> tuple[PolicyBundle, VerifyReport]:
    """Write and verify a PolicyBundle."""
    about: dict[str, Any] = {
        "recipe": to_yaml(policy.recipe),
        "checkpoint": policy.checkpoint.name,
        "env_steps": policy.env_steps,
        "train_seconds": round(policy.train_seconds, 1),
    }
    if evaluation is not None:
        about["evaluation"] = {k: float(v) for k, v in evaluation.summary().items()}
    env = make_env(policy.recipe.env, 4, training=False)
    try:
        return export_bundle(policy.model, env, path, training=about)
    finally:
        env.close()
