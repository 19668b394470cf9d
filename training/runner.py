"""A training run: collect, learn, log, evaluate, save; until it is long or good enough.

Run directory: recipe.yaml, metrics.csv, tensorboard/, checkpoints/.
"""

from __future__ import annotations

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
from rlinf_ros_training.checkpoint import Checkpoints, load_weights, read_checkpoint, write_atomic
from rlinf_ros_training.collector import Collector
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

        seeds = np.random.SeedSequence(config.seed).generate_state(2 + stages) % 2**31
        per_stage = recipe.env.num_envs // stages
        envs = [make_env(recipe.env, per_stage, training=True) for _ in range(stages)]
        torch.manual_seed(int(seeds[0]))
        self.behaviour = MlpActorCritic(envs[0].obs_dim, envs[0].action_dim, recipe.model)
        self.model = MlpActorCritic(envs[0].obs_dim, envs[0].action_dim, recipe.model)
        self.model.to(config.device)
        self._collectors = [
            Collector(env, self.behaviour, config.rollout_steps, int(seed))
            for env, seed in zip(envs, seeds[2:], strict=True)
        ]
        self._ppo = PPO(
            self.model,
            recipe.ppo,
            int(seeds[1]),
            threads=config.overlap,
            timeout_s=config.timeout_s,
        )
        self._evaluator = Evaluator(
            partial(make_env, recipe.env, training=False), self.model, recipe.eval
        )
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
                    row = self._advance(stop)
                    if row and self._evaluation_due(row):
                        evaluation = self._evaluate(stop, row) or evaluation
                    reason = self._reason(stop, evaluation)
                    if row:
                        log.write(row)
                        self._progress.update(row)
                    if reason or self.update % self.recipe.runner.checkpoint_interval == 0:
                        self.checkpoints.save(self._content())
        finally:
            log.close()
            self._progress.close()
            self.close()
        return RunResult(
            reason,
            self.update,
            self.update * self._steps_per_update,
            self._train_seconds(),
            evaluation,
            self.checkpoints.latest(),
        )

    def close(self) -> None:
        """Close the environments."""
        for collector in self._collectors:
            collector.env.close()
        self._evaluator.close()

    def _advance(self, stop: StopRequest) -> dict[str, float] | None:
        """One update; its row of metrics, or None if `stop` cut the rollout before it short."""
        config, began = self.recipe.runner, time.perf_counter()
        run = partial(run_tasks, threads=config.overlap, timeout_s=config.timeout_s)
        if not self._collected():
            run(self._collect_tasks(stop))
            if not self._collected():
                return None
        collect_seconds = max(c.seconds for c in self._collectors)
        episodes = self._episode_means()
        learn_began = time.perf_counter()
        batch = self._ppo.prepare([c.storage for c in self._collectors])
        for collector in self._collectors:
            collector.storage.clear()
        learn = partial(self._ppo.learn, batch, self.update / self.total_updates)
        timed_learn = partial(_timed, learn)
        prepare_seconds = time.perf_counter() - learn_began
        tasks: dict[str, Any] = {"learn": timed_learn}
        if config.staleness and self.update + 1 < self.total_updates:
            tasks |= self._collect_tasks(stop)
        metrics, learn_seconds = run(tasks)["learn"]
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

    def _collected(self) -> bool:
        return all(c.storage.full for c in self._collectors)

    def _collect_tasks(self, stop: StopRequest) -> dict[str, Any]:
        """Tasks that fill the storages, with the behaviour policy of this moment.

        A rollout that a stop cut short is continued with the policy that began it.
        """
        if not self._collectors[0].storage.started:
            self.behaviour.load_state_dict(self.model.state_dict())
            for collector in self._collectors:
                collector.begin()
        return {f"collect {i}": partial(c.run, stop) for i, c in enumerate(self._collectors)}

    def _episode_means(self) -> dict[str, float]:
        """Of the episodes that ended in the rollout, if any."""
        episodes = [episode for c in self._collectors for episode in c.episodes]
        for collector in self._collectors:
            collector.episodes.clear()
        if not episodes:
            return {}
        means = np.mean(episodes, axis=0).tolist()
        return dict(zip(("episode_return", "episode_length", "success_rate"), means, strict=True))

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
        if self.update >= self.total_updates:
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
            "model": _weights(self.model),
            "behaviour": _weights(self.behaviour),
            "ppo": self._ppo.state_dict(),
            "collectors": [c.state_dict() for c in self._collectors],
            "train_seconds": self._train_seconds(),
            "best": list(self._best) if self._best else None,
        }

    def _load(self, content: Mapping[str, Any], where: str) -> None:
        load_weights(self.model, content["model"], f"{where}:model")
        load_weights(self.behaviour, content["behaviour"], f"{where}:behaviour")
        self._ppo.load_state_dict(content["ppo"])
        for collector, state in zip(self._collectors, content["collectors"], strict=True):
            collector.load_state_dict(state)
        self.update, self._seconds_before = content["update"], content["train_seconds"]
        self._best = tuple(content["best"]) if content["best"] else None
        self._resumed = True


def _timed(task: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    return task(), time.perf_counter() - began


def _weights(model: MlpActorCritic) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}
