"""A training run: collect, learn, log, evaluate, save; until it is long or good enough.

Run directory: recipe.yaml, metrics.csv, tensorboard/, checkpoints/.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.fields import read_text
from rlinf_ros_training.algorithms.parallel import run_tasks
from rlinf_ros_training.algorithms.ppo import PPO
from rlinf_ros_training.checkpoint import (
    Checkpoints,
    load_weights,
    read_checkpoint,
    weights_of,
    write_atomic,
)
from rlinf_ros_training.collector import Stages
from rlinf_ros_training.config import (
    EnvConfig,
    Recipe,
    apply_overrides,
    check_resumable,
    from_yaml,
    to_yaml,
)
from rlinf_ros_training.envs.base import VecEnv
from rlinf_ros_training.evaluation import EvalResult, Evaluator
from rlinf_ros_training.models.actor_critic import MlpActorCritic
from rlinf_ros_training.progress import Progress
from rlinf_ros_training.run_log import RunLog
from rlinf_ros_training.stop import StopRequest


class MakeEnv(Protocol):
    """Makes `num_envs` environments; for evaluation without randomisation."""

    def __call__(self, config: EnvConfig, num_envs: int, *, training: bool) -> VecEnv: ...


@dataclass(frozen=True)
class RunResult:
    """How a run ended. `train_seconds` is all but evaluation, over all its sessions."""

    reason: Literal["length", "success", "stopped"]
    update: int
    env_steps: int
    train_seconds: float
    evaluation: EvalResult | None  # the last one
    checkpoint: Path  # the newest one, of this very state


class Runner:
    """One run in one process.

    The learner's model and the behaviour policy that collects are two copies: with
    `runner.staleness` = 1 a rollout is collected while the one before it is learned, by the policy
    from before that update. `runner.overlap` only chooses whether threads are used for it.
    """

    def __init__(
        self, recipe: Recipe, run_dir: str | Path, make_env: MakeEnv, *, quiet: bool = False
    ) -> None:
        """Prepare a new run in an empty or new directory; see `resume` for one to continue."""
        config, stages = recipe.runner, recipe.env.stages
        torch.set_num_threads(1)  # more of them slow small networks down
        self.recipe, self.run_dir = recipe, Path(run_dir)
        self.checkpoints = Checkpoints(self.run_dir / "checkpoints", config.keep_checkpoints)
        self.update = 0
        self._best: tuple[float, float] | None = None
        self._seconds_before, self._started = 0.0, 0.0
        self._resumed = False
        self._unevaluated: dict[str, float] | None = None  # row of metrics that a stop left so

        seeds = np.random.SeedSequence(config.seed).generate_state(2 + stages) % 2**31
        per_stage = recipe.env.num_envs // stages
        envs = [make_env(recipe.env, per_stage, training=True) for _ in range(stages)]
        torch.manual_seed(int(seeds[0]))
        self.model = MlpActorCritic(envs[0].obs_dim, envs[0].action_dim, recipe.model)
        behaviour = copy.deepcopy(self.model)
        self.model.to(config.device)
        self._stages = Stages(envs, behaviour, config.rollout_steps, seeds[2:].tolist())
        self._run = partial(run_tasks, threads=config.overlap, timeout_s=config.timeout_s)
        self._ppo = PPO(self.model, recipe.ppo, int(seeds[1]), self._run)
        make_eval_env = partial(make_env, recipe.env, training=False)
        self._evaluator = Evaluator(make_eval_env, self.model, recipe.eval)
        self._steps_per_update = config.rollout_steps * recipe.env.num_envs
        self.total_updates = -(-config.total_env_steps // self._steps_per_update)
        self._progress = Progress(recipe.name, config.total_env_steps, quiet=quiet)

    @classmethod
    def resume(
        cls,
        run_dir: str | Path,
        make_env: MakeEnv,
        overrides: Iterable[str] = (),
        *,
        quiet: bool = False,
    ) -> Runner:
        """Continue a run from its newest checkpoint, to the same result as without the pause."""
        path = Path(run_dir) / "recipe.yaml"
        recipe = apply_overrides(from_yaml(read_text(path), str(path)), overrides)
        checkpoint = Checkpoints(Path(run_dir) / "checkpoints").latest()
        content = read_checkpoint(checkpoint)
        check_resumable(recipe, from_yaml(content["recipe"], f"{checkpoint}:recipe"))
        runner = cls(recipe, run_dir, make_env, quiet=quiet)
        runner._load(content, str(checkpoint))
        return runner

    def run(self) -> RunResult:
        """Train to the end, or until Ctrl-C or SIGTERM; the state is saved in every case."""
        if not self._resumed and self.checkpoints.all():
            raise ConfigError(
                "holds a run already", where=str(self.run_dir), fix="resume it, or choose another"
            )
        write_atomic(self.run_dir / "recipe.yaml", to_yaml(self.recipe).encode())
        log = RunLog(self.run_dir, after_update=self.update)
        self._started = time.perf_counter()
        evaluation: EvalResult | None = None
        self._progress.start()
        try:
            with StopRequest() as stop:
                reason = self._reason(stop, None)
                while reason is None:
                    row, self._unevaluated = self._unevaluated or self._advance(stop), None
                    if row and self._evaluation_due(row):
                        evaluation = self._evaluate(stop, row)
                        if evaluation is None:
                            row, self._unevaluated = None, row
                    reason = self._reason(stop, evaluation)
                    if row:
                        log.write(row)
                        self._progress.update(row)
                    if reason or self.update % self.recipe.runner.checkpoint_interval == 0:
                        self.checkpoints.save(self._content())
        finally:
            log.close()
            self._progress.close()
            self._stages.close()
            self._evaluator.close()
        steps, checkpoint = self.update * self._steps_per_update, self.checkpoints.latest()
        seconds = self._train_seconds()
        return RunResult(reason, self.update, steps, seconds, evaluation, checkpoint)

    def _advance(self, stop: StopRequest) -> dict[str, float] | None:
        """One update; its row of metrics, or None if `stop` cut the rollout before it short."""
        began = time.perf_counter()
        if not self._stages.full:
            self._run(self._stages.tasks(self.model, stop))
            if not self._stages.full:
                return None
        collect_seconds, episodes = self._stages.seconds, self._stages.take_episode_means()
        prepare_began = time.perf_counter()
        batch = self._ppo.prepare(self._stages.storages())
        prepare_seconds = time.perf_counter() - prepare_began
        self._stages.clear()  # the batch has its own memory
        learn = partial(self._ppo.learn, batch, self.update / self.total_updates)
        tasks: dict[str, Any] = {"learn": partial(_timed, learn)}
        if self.recipe.runner.staleness and self.update + 1 < self.total_updates:
            tasks |= self._stages.tasks(self.model, stop)
        metrics, learn_seconds = self._run(tasks)["learn"]
        self.update += 1
        return {
            "update": self.update,
            "env_steps": self.update * self._steps_per_update,
            "train_seconds": self._train_seconds(),
            "env_steps_per_second": self._steps_per_update / (time.perf_counter() - began),
            "collect_seconds": collect_seconds,
            "learn_seconds": prepare_seconds + learn_seconds,
            **episodes,
            **metrics,
        }

    def _evaluation_due(self, row: Mapping[str, float]) -> bool:
        config = self.recipe.eval
        if self.update >= self.total_updates:
            return True
        due = config.interval > 0 and self.update % config.interval == 0
        return due and row.get("success_rate", 0.0) >= config.min_train_success

    def _evaluate(self, stop: StopRequest, row: dict[str, float]) -> EvalResult | None:
        """Evaluate into `row` and keep the best checkpoint; None if stopped meanwhile."""
        result = self._evaluator.run(stop.check)
        if result is None:
            return None
        row |= {f"eval/{name}": value for name, value in result.summary().items()}
        score = (result.rate, float(result.episode_return.mean()))
        if self._best is None or score > self._best:
            self._best = score
            self.checkpoints.save_best(self._content())
        return result

    def _reason(
        self, stop: StopRequest, evaluation: EvalResult | None
    ) -> Literal["length", "success", "stopped"] | None:
        enough = self.recipe.runner.stop_at_success
        if enough is not None and evaluation is not None and evaluation.rate >= enough:
            return "success"
        if self.update >= self.total_updates and self._unevaluated is None:
            return "length"
        return "stopped" if stop() else None

    def _train_seconds(self) -> float:
        session = time.perf_counter() - self._started
        return self._seconds_before + session - self._evaluator.seconds

    def _content(self) -> dict[str, Any]:
        return {
            "recipe": to_yaml(self.recipe),
            "obs_dim": self.model.obs_dim,
            "action_dim": self.model.action_dim,
            "update": self.update,
            "model": weights_of(self.model),
            "behaviour": weights_of(self._stages.behaviour),
            "ppo": self._ppo.state_dict(),
            "collectors": self._stages.state_dict(),
            "train_seconds": self._train_seconds(),
            "best": list(self._best) if self._best else None,
            "unevaluated": self._unevaluated,
        }

    def _load(self, content: Mapping[str, Any], where: str) -> None:
        load_weights(self.model, content["model"], f"{where}:model")
        load_weights(self._stages.behaviour, content["behaviour"], f"{where}:behaviour")
        self._ppo.load_state_dict(content["ppo"])
        self._stages.load_state_dict(content["collectors"])
        self.update, self._seconds_before = content["update"], content["train_seconds"]
        self._best = tuple(content["best"]) if content["best"] else None
        self._unevaluated = content["unevaluated"]
        self._resumed = True


def _timed(task: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    return task(), time.perf_counter() - began
