"""The whole training side by its command: run, resume, evaluate, export, and faults."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rlinf_ros.cli import main as ros_main
from rlinf_ros.policy.bundle import PolicyBundle
from rlinf_ros.policy.verify import make_policy
from rlinf_ros_training import train
from rlinf_ros_training.cli import main
from rlinf_ros_training.export import to_onnx
from rlinf_ros_training.models.actor_critic import MlpActorCritic

TINY = ["env.num_envs=8", "runner.total_env_steps=1024", "eval.episodes=4", "eval.num_envs=4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert main(["run", "reach", "--run", str(folder), *TINY]) == 0
    return folder


@pytest.fixture(scope="module")
def bundle(run):
    path = run.parent / "bundle"
    assert main(["export", str(run), str(path), "--episodes", "4"]) == 0
    return path


def test_a_run_leaves_what_it_promises(run):
    names = {p.name for p in run.iterdir()}
    assert {"recipe.yaml", "metrics.csv", "tensorboard", "checkpoints"} <= names
    assert (run / "checkpoints" / "best.pt").is_file()


def test_export_then_verify(bundle, capsys):
    assert ros_main(["verify", str(bundle)]) == 0
    assert "128 golden samples" in capsys.readouterr().out
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["training"]["env_steps"] == 1024 and "torch" in manifest["versions"]
    assert b"/tests/" not in (bundle / "policy.onnx").read_bytes()  # no paths of this machine


def test_bundle_of_another_robot_and_edited_bundle(bundle, tmp_path, capsys):
    assert ros_main(["verify", str(bundle), "--robot", "ur5"]) == 1
    assert "this robot is 'ur5'" in capsys.readouterr().err
    copy = shutil.copytree(bundle, tmp_path / "edited")
    contract = copy / "contract.yaml"
    contract.write_text(contract.read_text().replace("scale: 0.05", "scale: 0.06"))
    assert ros_main(["verify", str(copy)]) == 1
    assert "edited after the export" in capsys.readouterr().err


def test_case_39_running_statistics_are_in_the_export(run, bundle):
    policy = train.load_policy(run)
    mean = policy.model.normalizer.mean
    assert float(mean.abs().max()) > 0.01  # the statistics are not trivial
    obs = torch.randn(64, policy.model.obs_dim, generator=torch.Generator().manual_seed(1)) * 2
    with torch.no_grad():
        expected = policy.model.mean_action(obs).numpy()
    exported = make_policy(PolicyBundle.load(bundle))(obs.numpy())
    np.testing.assert_allclose(exported, expected, rtol=0, atol=1e-5)
    frozen = MlpActorCritic(policy.model.obs_dim, policy.model.action_dim, policy.recipe.model)
    weights = {k: v for k, v in policy.model.state_dict().items() if "normalizer" not in k}
    frozen.load_state_dict(weights, strict=False)
    with torch.no_grad():
        without = frozen.mean_action(obs).numpy()
    assert np.abs(without - expected).max() > 1e-3  # the measure would notice their loss


def test_case_41_the_export_is_deterministic(run):
    policy = train.load_policy(run)
    content = to_onnx(policy.model, policy.model.obs_dim)
    from rlinf_ros.policy.onnx_policy import OnnxPolicy

    session = OnnxPolicy(content, policy.model.obs_dim, policy.model.action_dim, "export")
    obs = np.random.default_rng(0).normal(size=(16, policy.model.obs_dim)).astype(np.float32)
    assert np.array_equal(session(obs), session(obs))


def test_a_lengthened_run_ends_where_a_long_one_does(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    recipe = [*TINY, "runner.staleness=0"]  # with 1, the end of the short run drops a rollout
    assert main(["run", "reach", "--run", str(whole), *recipe]) == 0
    short = "runner.total_env_steps=512"
    assert main(["run", "reach", "--run", str(parts), *recipe, short]) == 0
    assert main(["run", "--resume", str(parts), "runner.total_env_steps=1024"]) == 0
    a, b = (train.load_policy(p / "checkpoints" / "update_00000004.pt") for p in (whole, parts))
    for name, value in a.model.state_dict().items():
        assert torch.equal(value, b.model.state_dict()[name]), name


def test_nan_in_a_checkpoint_is_refused(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "run")
    best = copy / "checkpoints" / "best.pt"
    content = torch.load(best, weights_only=True)
    content["model"]["actor.0.weight"][3, 2] = float("nan")
    torch.save(content, best)
    assert main(["evaluate", str(copy)]) == 1
    assert "model.actor.0.weight" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["run", "rech"], "did you mean 'reach'?"),
        (["run", "reach", "ppo.gama=0.9"], "did you mean 'gamma'?"),
        (["run", "reach", "ppo.gamma=2"], "out of range"),
        (["run", "reach", "env.task=nope.py:Task"], "no such file: nope.py"),
        (["run"], "give a recipe"),
        (["evaluate", "runs/none"], "no such run directory"),
        (["demo", "--trials", "3"], "too few"),
    ],
)
def test_faults_are_one_clear_error(argv, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert says in error and error.startswith("error: ")


def test_a_second_run_in_the_same_directory_is_refused(run, capsys):
    assert main(["run", "reach", "--run", str(run), *TINY]) == 1
    assert "holds a run already" in capsys.readouterr().err


def test_the_documented_task_trains(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    (tmp_path / "wave.py").write_text(code)
    (command,) = re.findall(r"rlinf-train (run .*wave.*)", text)
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), *TINY]) == 0
    assert "env steps" in capsys.readouterr().out
