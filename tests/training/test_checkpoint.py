"""Checkpoints: whole or not at all, also on a full disk; each kind of damage has its error."""

import os
import subprocess
import sys

import pytest
import torch

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros_training.checkpoint import (
    Checkpoints,
    find_checkpoint,
    load_model,
    read_checkpoint,
    write_checkpoint,
)
from rlinf_ros_training.config import ModelConfig, Recipe, to_yaml
from rlinf_ros_training.models.actor_critic import MlpActorCritic

CONFIG = ModelConfig(actor_hidden=(8,), critic_hidden=(8,))


def content(update=1, **changes):
    torch.manual_seed(update)
    model = MlpActorCritic(4, 2, CONFIG)
    return {
        "recipe": to_yaml(Recipe(model=CONFIG)),
        "obs_dim": 4,
        "action_dim": 2,
        "update": update,
        "model": model.state_dict(),
        **changes,
    }


def test_round_trip(tmp_path):
    saved = content()
    model, recipe, info = load_model(Checkpoints(tmp_path).save(saved))
    assert recipe == Recipe(model=CONFIG)
    assert info["update"] == 1
    assert not model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, saved["model"][name])


def test_keeps_the_newest_and_the_best(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    with pytest.raises(ConfigError, match="holds no checkpoint"):
        checkpoints.latest()
    checkpoints.save_best(content(1))
    for update in range(1, 12):
        checkpoints.save(content(update))
    assert [p.name for p in checkpoints.all()] == ["update_00000010.pt", "update_00000011.pt"]
    assert read_checkpoint(checkpoints.latest())["update"] == 11
    assert find_checkpoint(tmp_path).name == "best.pt"
    assert read_checkpoint(find_checkpoint(tmp_path))["update"] == 1
    (tmp_path / "checkpoints/best.pt").unlink()
    assert find_checkpoint(tmp_path).name == "update_00000011.pt"


def test_nan_in_a_tensor_is_named(tmp_path):
    broken = content()
    broken["model"]["actor.0.weight"][1, 2] = torch.nan
    path = Checkpoints(tmp_path).save(broken)
    with pytest.raises(
        ConfigError, match=r"tensor 'model\.actor\.0\.weight' has NaN or Inf"
    ) as caught:
        load_model(path)
    assert caught.value.where == str(path)
    nested = content(ppo={"moments": [torch.zeros(2), torch.tensor([torch.inf])]})
    with pytest.raises(ConfigError, match=r"'ppo\.moments\[1\]'"):
        read_checkpoint(Checkpoints(tmp_path).save(nested))


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, -1])
def test_a_truncated_file_is_named(tmp_path, keep):
    path = Checkpoints(tmp_path).save(content())
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(ConfigError, match="truncated, damaged or not a checkpoint") as caught:
        read_checkpoint(path)
    assert caught.value.where == str(path)


def test_every_damaged_byte_of_a_tensor_is_found(tmp_path):
    path = Checkpoints(tmp_path).save(content())
    data = path.read_bytes()
    weights = content()["model"]["actor.0.weight"].numpy().tobytes()
    start = data.index(weights)
    for offset in (0, len(weights) // 2, len(weights) - 1):
        broken = bytearray(data)
        broken[start + offset] ^= 1
        path.write_bytes(broken)
        with pytest.raises(ConfigError, match="damaged"):
            read_checkpoint(path)


class Evil:
    def __reduce__(self):
        return (os.system, ("touch /tmp/rlinf_ros_evil",))


def test_no_code_is_run_from_a_checkpoint(tmp_path):
    torch.save(content(extra=Evil()), tmp_path / "evil.pt")
    with pytest.raises(ConfigError, match="not a checkpoint"):
        read_checkpoint(tmp_path / "evil.pt")


def test_other_files_and_formats(tmp_path):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ConfigError, match="is not a checkpoint: it lacks"):
        read_checkpoint(tmp_path / "list.pt")
    torch.save({**content(), "format": 99}, tmp_path / "new.pt")
    with pytest.raises(ConfigError, match="has format 99") as caught:
        read_checkpoint(tmp_path / "new.pt")
    assert caught.value.allowed == "1"
    with pytest.raises(ConfigError, match="no such checkpoint") as caught:
        read_checkpoint(tmp_path / "nwe.pt")
    assert "new.pt" in caught.value.allowed


def test_weights_that_do_not_fit_the_recipe(tmp_path):
    other = to_yaml(Recipe(model=ModelConfig(actor_hidden=(9,), critic_hidden=(8,))))
    path = Checkpoints(tmp_path).save(content(recipe=other))
    with pytest.raises(ConfigError, match=r"do not fit the recipe's model(.|\n)*actor\.0\.weight"):
        load_model(path)


FULL_DISK = """
import resource, sys
sys.path[:0] = {path!r}
from pathlib import Path
from rlinf_ros.contract.errors import ConfigError
from rlinf_ros_training.checkpoint import write_checkpoint
from tests.training.test_checkpoint import content
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # the kernel refuses to write further
try:
    write_checkpoint(Path({file!r}), content(2))
except ConfigError as error:
    print(error)
    sys.exit(3)
"""


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path):
    path = tmp_path / "best.pt"
    write_checkpoint(path, content(1))
    before = path.read_bytes()
    script = FULL_DISK.format(path=sys.path, file=str(path))
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 3, result.stderr
    assert str(path) in result.stdout
    assert "File too large" in result.stdout
    assert "fix: free space" in result.stdout
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["best.pt"], "no rest of the failed attempt"
    load_model(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be saved"):
        write_checkpoint(tmp_path / "best.pt", content(1))
