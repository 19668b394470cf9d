"""Checkpoints: written whole or not at all, checked completely before anything is used.

A checkpoint is a torch zip file of tensors, strings and numbers, loaded without unpickling code.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros_training.config import Recipe, from_yaml
from rlinf_ros_training.models.actor_critic import MlpActorCritic

FORMAT = 1
BEST = "best.pt"
_KEYS = ("format", "recipe", "obs_dim", "action_dim", "update", "model")


class Checkpoints:
    """The checkpoints of one run: the newest few, `update_00000123.pt`, and `best.pt`."""

    def __init__(self, folder: str | Path, keep: int = 3) -> None:
        self.folder, self._keep = Path(folder), keep

    def save(self, content: Mapping[str, Any]) -> Path:
        """Write one named by content["update"] and remove all but the newest `keep`."""
        path = self.folder / f"update_{content['update']:08d}.pt"
        write_checkpoint(path, content)
        for old in self.all()[: -self._keep]:
            old.unlink(missing_ok=True)
        return path

    def save_best(self, content: Mapping[str, Any]) -> Path:
        """Replace best.pt."""
        write_checkpoint(self.folder / BEST, content)
        return self.folder / BEST

    def all(self) -> list[Path]:
        """The numbered ones, oldest first."""
        return sorted(self.folder.glob("update_*.pt"))

    def latest(self) -> Path:
        """The newest numbered one; ConfigError if there is none."""
        if not self.all():
            raise ConfigError(
                "holds no checkpoint", where=str(self.folder), fix="start the run without resume"
            )
        return self.all()[-1]


def find_checkpoint(path: str | Path) -> Path:
    """`path` itself if it is a file; of a run directory the best checkpoint, else the newest."""
    path = Path(path)
    if path.is_file():
        return path
    best = path / "checkpoints" / BEST
    return best if best.is_file() else Checkpoints(path / "checkpoints").latest()


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint whole; a failure leaves what was there. Raises ConfigError."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **content}, buffer)
    write_atomic(path, buffer.getvalue())


def write_atomic(path: Path, content: bytes) -> None:
    """Write beside `path`, flush to the disk, then rename. Raises ConfigError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too, survives a power cut
        finally:
            os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot be saved ({len(content)} bytes): {error.strerror}",
            where=str(path),
            fix="free space or allow writing there, then resume; what was saved before is unharmed",
        ) from error


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Load and check a checkpoint: whole file, format, required keys, finite numbers.

    Raises ConfigError that names the file, and the tensor where one is not finite.
    """
    path = Path(path)
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.pt")) if path.parent.is_dir() else []
        raise ConfigError("no such checkpoint", where=str(path), allowed=near)
    fix = "use an older checkpoint of the run"
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        content = None if damaged else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types for broken files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"is truncated, damaged or not a checkpoint ({reason})", where=str(path), fix=fix
        ) from error
    if content is None:
        raise ConfigError(f"is damaged in its part '{damaged}'", where=str(path), fix=fix)
    missing = [key for key in _KEYS if not isinstance(content, dict) or key not in content]
    if missing:
        raise ConfigError(f"is not a checkpoint: it lacks {missing}", where=str(path))
    if content["format"] != FORMAT:
        raise ConfigError(
            f"has format {content['format']!r}",
            where=str(path),
            allowed=[FORMAT],
            fix="use the version of rlinf_ros that wrote it",
        )
    for name, tensor in _tensors(content, ""):
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ConfigError(f"tensor '{name}' has NaN or Inf", where=str(path), fix=fix)
    return content


def load_model(path: str | Path) -> tuple[MlpActorCritic, Recipe, dict[str, Any]]:
    """Model, recipe and whole content of a checkpoint file or of a run directory's best one."""
    path = find_checkpoint(path)
    content = read_checkpoint(path)
    recipe = from_yaml(content["recipe"], where=f"{path}:recipe")
    model = MlpActorCritic(content["obs_dim"], content["action_dim"], recipe.model)
    load_weights(model, content["model"], f"{path}:model")
    return model.eval(), recipe, content


def weights_of(model: MlpActorCritic) -> dict[str, torch.Tensor]:
    """A copy of the model's state dict on the CPU."""
    return {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}


def load_weights(model: MlpActorCritic, weights: Mapping[str, Any], where: str) -> None:
    """Copy a state dict into the model; ConfigError if names or shapes differ."""
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise ConfigError(
            "the weights do not fit the recipe's model:\n" + str(error), where=where
        ) from error


def _tensors(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _tensors(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from _tensors(inner, f"{name}[{i}]")
