"""The run as a whole: order of work, threads, pauses and resumes, signals, files."""

import signal
import subprocess
import sys
import threading

import pytest
import torch

from rlinf_ros.contract.errors import ConfigError, RlinfError
from rlinf_ros_training import runner
from rlinf_ros_training.algorithms.parallel import run_tasks
from rlinf_ros_training.checkpoint import load_model, read_checkpoint
from rlinf_ros_training.collector import Stages
from rlinf_ros_training.config import (
    EnvConfig,
    EvalConfig,
    ModelConfig,
    PPOConfig,
    Recipe,
    RunnerConfig,
    apply_overrides,
    from_yaml,
)
from rlinf_ros_training.run_log import read_metrics
from rlinf_ros_training.runner import Runner
from tests.training.toy_env import ToyEnv

T, N, UPDATES = 8, 12, 6


def recipe(*overrides):
    base = Recipe(
        name="toy",
        env=EnvConfig(num_envs=N),
        model=ModelConfig(actor_hidden=(16, 16), critic_hidden=(16, 16)),
        ppo=PPOConfig(epochs=2, minibatch_size=32, learning_rate=3e-3),
        runner=RunnerConfig(
            total_env_steps=UPDATES * T * N, rollout_steps=T, checkpoint_interval=2
        ),
        eval=EvalConfig(interval=3, episodes=20, num_envs=8),
    )
    return apply_overrides(base, overrides)


def make_env(config, num_envs, *, training):
    return ToyEnv(num_envs)


def run(tmp_path, name, *overrides, make=make_env):
    return Runner(recipe(*overrides), tmp_path / name, make, quiet=True).run()


def same(a, b, path=""):
    """Whether two nested states are equal bit by bit; all that time goes into is left out."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(
            same(a[k], b[k], f"{path}.{k}") for k in a if k not in ("train_seconds", "recipe")
        )
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y, path) for x, y in zip(a, b, strict=True))
    return a == b


def numbers(run_dir):
    """metrics.csv without the columns that hold times."""
    return [{k: v for k, v in row.items() if "second" not in k} for row in read_metrics(run_dir)]


@pytest.mark.parametrize("staleness", [0, 1])
@pytest.mark.parametrize("stages", [1, 3])
def test_overlap_changes_nothing_but_time(tmp_path, staleness, stages):
    common = (f"runner.staleness={staleness}", f"env.stages={stages}")
    states, rows = [], []
    for overlap in ("true", "false"):
        result = run(tmp_path, overlap, *common, f"runner.overlap={overlap}")
        states.append(read_checkpoint(result.checkpoint))
        rows.append(numbers(tmp_path / overlap))
    assert same(*states)
    assert rows[0] == rows[1]
    assert len(rows[0]) == UPDATES


def test_collection_runs_beside_learning_only_at_staleness_one(tmp_path):
    threads = {0: set(), 1: set()}
    for staleness in threads:

        def make(config, num_envs, *, training, seen=threads[staleness]):
            return ToyEnv(num_envs, lambda _: seen.add(threading.current_thread().name))

        run(
            tmp_path, f"s{staleness}", f"runner.staleness={staleness}", "eval.interval=0", make=make
        )
    assert threads[0] == {"MainThread"}
    assert threads[1] == {"MainThread", "collect 0"}


def test_staleness_uses_the_policy_from_before_the_last_update(tmp_path, monkeypatch):
    """Rollouts 0 and 1 are collected with the first weights, rollout 2 with those of update 1."""
    starts = {}

    class Spy(Stages):
        def tasks(self, model, stop):
            tasks = super().tasks(model, stop)
            starts.setdefault("behaviour", []).append(self.behaviour.log_std.detach().clone())
            starts.setdefault("model", []).append(model.log_std.detach().clone())
            return tasks

    monkeypatch.setattr(runner, "Stages", Spy)

    for staleness in (0, 1):
        starts.clear()
        run(tmp_path, f"s{staleness}", f"runner.staleness={staleness}")
        assert len(starts["behaviour"]) == UPDATES, "no rollout is collected that is not learned"
        for behaviour, model in zip(starts["behaviour"], starts["model"], strict=True):
            assert torch.equal(behaviour, model)
        first, second = starts["behaviour"][:2]
        assert torch.equal(first, second) == bool(staleness)
        assert not torch.equal(second, starts["behaviour"][2])


class Pause:
    """Makes environments of which one asks for a stop (as Ctrl-C does) before its step number k."""

    def __init__(self, k, in_training=True):
        self.k, self.in_training, self.done = k, in_training, False

    def __call__(self, config, num_envs, *, training):
        return ToyEnv(num_envs, self.on_step if training == self.in_training else lambda _: None)

    def on_step(self, step):
        if step == self.k and not self.done:
            self.done = True
            signal.raise_signal(signal.SIGINT) if threading.current_thread() is (
                threading.main_thread()
            ) else signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.mark.parametrize("overlap", ["true", "false"])
@pytest.mark.parametrize("staleness", [0, 1])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("stop_at", [0, 3, 8, 21])
def test_resume_gives_the_result_of_an_uninterrupted_run(
    tmp_path, overlap, staleness, stages, stop_at
):
    common = (f"runner.staleness={staleness}", f"env.stages={stages}", f"runner.overlap={overlap}")
    whole = run(tmp_path, "whole", *common)
    first = run(tmp_path, "pieces", *common, make=Pause(stop_at))
    assert first.reason == "stopped"
    assert first.update < UPDATES
    second = Runner.resume(tmp_path / "pieces", make_env, quiet=True).run()
    assert (second.reason, second.update) == ("length", UPDATES)
    assert same(read_checkpoint(whole.checkpoint), read_checkpoint(second.checkpoint))
    assert numbers(tmp_path / "whole") == numbers(tmp_path / "pieces")
    assert second.train_seconds > first.train_seconds


@pytest.mark.parametrize("stop_at", [5, 65])  # the first evaluation has 60 steps; the last one
def test_an_evaluation_cut_short_is_made_up_for(tmp_path, stop_at):
    whole = run(tmp_path, "whole")
    first = run(tmp_path, "pieces", make=Pause(stop_at, in_training=False))
    assert first.reason == "stopped"
    assert first.update == (3 if stop_at == 5 else UPDATES)
    second = Runner.resume(tmp_path / "pieces", make_env, quiet=True).run()
    assert second.reason == "length"
    assert same(read_checkpoint(whole.checkpoint), read_checkpoint(second.checkpoint))
    assert numbers(tmp_path / "whole") == numbers(tmp_path / "pieces")


def test_resume_after_a_crash_drops_the_rows_after_the_checkpoint(tmp_path):
    class BrokenError(Exception):
        pass

    def crash(step):
        if step == 5 * T:
            raise BrokenError

    whole = run(tmp_path, "whole")
    with pytest.raises(BrokenError):
        run(tmp_path, "pieces", make=lambda c, n, training: ToyEnv(n, crash if training else int))
    assert [r["update"] for r in read_metrics(tmp_path / "pieces")] == [1, 2, 3, 4, 5]
    (tmp_path / "pieces/checkpoints/update_00000004.pt").unlink()
    result = Runner.resume(tmp_path / "pieces", make_env, quiet=True).run()
    assert same(read_checkpoint(whole.checkpoint), read_checkpoint(result.checkpoint))
    assert numbers(tmp_path / "whole") == numbers(tmp_path / "pieces")


def test_run_directory(tmp_path):
    result = run(tmp_path, "a", "runner.keep_checkpoints=2")
    folder = tmp_path / "a"
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == [
        "best.pt",
        "update_00000004.pt",
        "update_00000006.pt",
    ]
    assert from_yaml((folder / "recipe.yaml").read_text()) == recipe("runner.keep_checkpoints=2")
    assert list((folder / "tensorboard").glob("events.*"))
    rows = read_metrics(folder)
    assert [r["env_steps"] for r in rows] == [T * N * (i + 1) for i in range(UPDATES)]
    assert [i + 1 for i, r in enumerate(rows) if "eval/success_rate" in r] == [3, 6]
    assert rows[-1]["eval/success_rate"] == result.evaluation.rate
    assert rows[-1]["train_seconds"] <= result.train_seconds
    model, saved, content = load_model(folder)
    assert saved.name == "toy"
    assert content["update"] in (3, 6)
    assert model.mean_action(torch.zeros(1, 4)).shape == (1, 2)


def test_stops_when_it_is_good_enough(tmp_path):
    size = ("env.num_envs=32", "runner.rollout_steps=32", "ppo.minibatch_size=256", "ppo.epochs=5")
    length = ("runner.stop_at_success=0.9", "runner.total_env_steps=100_000")
    result = run(tmp_path, "a", *size, *length)
    assert result.reason == "success"
    assert result.evaluation.rate >= 0.9
    assert result.env_steps < 100_000
    assert load_model(tmp_path / "a")[2]["update"] == result.update


def test_evaluation_waits_for_training_success(tmp_path):
    run(tmp_path, "a", "eval.interval=1", "eval.min_train_success=1.0")
    assert [r["update"] for r in read_metrics(tmp_path / "a") if "eval/success_rate" in r] == [6]


def test_a_used_directory_is_refused(tmp_path):
    run(tmp_path, "a")
    with pytest.raises(ConfigError, match="holds a run already"):
        run(tmp_path, "a")


def test_resume_refuses_another_recipe_and_takes_a_longer_run(tmp_path):
    run(tmp_path, "a")
    with pytest.raises(ConfigError) as caught:
        Runner.resume(tmp_path / "a", make_env, ["ppo.gamma=0.5"])
    assert caught.value.where == "ppo.gamma"
    assert "started with 0.97" in str(caught.value)
    longer = Runner.resume(
        tmp_path / "a", make_env, [f"runner.total_env_steps={9 * T * N}"], quiet=True
    )
    assert longer.run().update == 9
    with pytest.raises(ConfigError, match="holds no checkpoint"):
        (tmp_path / "b").mkdir()
        (tmp_path / "b/recipe.yaml").write_text("name: b\n")
        Runner.resume(tmp_path / "b", make_env)


def test_environments_are_closed_also_after_an_error(tmp_path):
    made = []

    def fail(step):
        if step == 9:
            raise RlinfError("physics exploded")

    def make(config, num_envs, *, training):
        made.append(ToyEnv(num_envs, fail))
        return made[-1]

    for overlap in ("true", "false"):
        with pytest.raises(RlinfError, match="physics exploded"):
            run(tmp_path, overlap, f"runner.overlap={overlap}", "runner.staleness=1", make=make)
    assert made
    assert all(env.closed for env in made)


def test_a_task_that_hangs_is_named():
    release = threading.Event()
    tasks = {"learn": lambda: 1, "collect 0": lambda: release.wait(30)}
    with pytest.raises(RlinfError, match=r"'collect 0' took longer than 0\.05 s"):
        run_tasks(tasks, threads=True, timeout_s=0.05)
    release.set()


SCRIPT = """
import sys, time
sys.path[:0] = {path!r}
from rlinf_ros_training.runner import Runner
from tests.training.test_runner import recipe
from tests.training.toy_env import ToyEnv

def slow(step):
    if step == 3:
        print("stepping", flush=True)
    time.sleep(0.05)

result = Runner(
    recipe("runner.total_env_steps=100_000_000", "runner.rollout_steps=1000"),
    {run!r},
    lambda config, n, training: ToyEnv(n, slow),
).run()
print(result.reason, result.update, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_cleanly_in_the_middle_of_a_rollout(tmp_path, number):
    script = SCRIPT.format(path=sys.path, run=str(tmp_path / "a"))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "stepping\n"
        process.send_signal(number)  # a whole rollout would take 50 s
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert output == "stopped 0\n"
    content = read_checkpoint(tmp_path / "a/checkpoints/update_00000000.pt")
    assert 3 <= content["collectors"][0]["storage"]["filled"] < 1000
