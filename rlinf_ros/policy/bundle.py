"""PolicyBundle: one folder that carries a policy, its contract and the proof that they belong together.

policy.onnx     observation (N, D) float32 → action (N, A) float32, normaliser inside
contract.yaml   the exact text that the policy was trained with
golden.npz      raw robot states and the observations, actions and commands they must give
manifest.json   versions, hashes of the three files, control_dt, robot fingerprint, training run
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract.errors import ConfigError
from ..contract.fields import read_text
from ..contract.load import parse_contract
from ..contract.model import Contract

SCHEMA = "rlinf_ros/bundle/v1"
FILES = ("policy.onnx", "contract.yaml", "golden.npz")
GOLDEN_STATE = ("joint_position", "joint_velocity", "last_command", "last_action")
GOLDEN_GOAL = ("goal_position", "goal_quat_xyzw")
GOLDEN_RESULT = ("observation", "action", "command")
_MANIFEST_KEYS = {
    "schema",
    "name",
    "created",
    "control_dt_s",
    "robot",
    "versions",
    "training",
    "files",
}


@dataclass(frozen=True)
class PolicyBundle:
    """A bundle read from disk; every byte agreed with the manifest."""

    path: Path
    contract: Contract
    onnx: bytes
    golden: dict[str, npt.NDArray[Any]]
    manifest: dict[str, Any]

    @property
    def sha256(self) -> str:
        """Hash of the manifest, which holds the hashes of all files: the bundle's identity."""
        return hashlib.sha256(json.dumps(self.manifest, sort_keys=True).encode()).hexdigest()

    @staticmethod
    def load(path: str | Path) -> PolicyBundle:
        """Read a bundle. Raises ConfigError on a missing, truncated or edited file."""
        path = Path(path)
        if not path.is_dir():
            raise ConfigError(
                "no such bundle folder",
                where=str(path),
                fix="make one with `rlinf-train export RUN`",
            )
        manifest = _read_manifest(path / "manifest.json")
        content = {name: _read_checked(path / name, manifest) for name in FILES}
        where = str(path / "contract.yaml")
        contract = parse_contract(content["contract.yaml"].decode("utf-8"), where)
        if contract.control_dt_s != manifest["control_dt_s"]:
            raise ConfigError(
                f"control_dt_s {manifest['control_dt_s']} differs from the contract's "
                f"{contract.control_dt_s}",
                where=f"{path / 'manifest.json'}:control_dt_s",
            )
        golden = _read_golden(path / "golden.npz")
        return PolicyBundle(path, contract, content["policy.onnx"], golden, manifest)


def save_bundle(
    path: str | Path,
    *,
    contract: Contract,
    onnx: bytes,
    golden: Mapping[str, npt.NDArray[Any]],
    manifest: Mapping[str, Any],
    check: Callable[[PolicyBundle], None] = lambda bundle: None,
) -> Path:
    """Write a bundle folder atomically: it appears whole or not at all; an old one is replaced last.

    manifest: name, created, robot, versions, training; hashes and control_dt_s are added here.
    check: gets the bundle as it was read back; what it raises leaves an old bundle in place.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        (work / "policy.onnx").write_bytes(onnx)
        (work / "contract.yaml").write_bytes(contract.text.encode("utf-8"))
        with (work / "golden.npz").open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **golden)
        document = {
            **manifest,
            "schema": SCHEMA,
            "control_dt_s": contract.control_dt_s,
            "files": {name: _fingerprint((work / name).read_bytes()) for name in FILES},
        }
        (work / "manifest.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        for file_path in work.iterdir():
            descriptor = os.open(file_path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        check(PolicyBundle.load(work))  # what is no good must not replace what was
        _swap(work, path)
    except OSError as error:
        raise ConfigError(
            f"the bundle could not be written: {error}",
            where=str(path),
            fix="free some disk space or choose another folder; an older bundle there is untouched",
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return path


def _swap(new: Path, path: Path) -> None:
    new.chmod(0o755)  # mkdtemp makes it private
    if not path.exists():
        new.rename(path)
        return
    old = path.with_name(f".{path.name}-old-{os.getpid()}")
    path.rename(old)
    try:
        new.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _fingerprint(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ConfigError(f"not valid JSON: {error}", where=str(path)) from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        found = manifest.get("schema") if isinstance(manifest, dict) else type(manifest).__name__
        raise ConfigError(
            f"not a bundle manifest: {found!r}", where=f"{path}:schema", allowed=[SCHEMA]
        )
    if problem := sorted(_MANIFEST_KEYS ^ set(manifest)):
        word = "missing" if problem[0] in _MANIFEST_KEYS else "unknown key"
        raise ConfigError(word, where=f"{path}:{problem[0]}", allowed=sorted(_MANIFEST_KEYS))
    files = manifest["files"]
    if not isinstance(files, dict) or set(files) != set(FILES):
        raise ConfigError(
            "must list exactly the bundle's files", where=f"{path}:files", allowed=FILES
        )
    return manifest


def _read_checked(path: Path, manifest: Mapping[str, Any]) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    expected = manifest["files"][path.name]
    if _fingerprint(content) != expected:
        size = expected.get("bytes") if isinstance(expected, dict) else None
        what = (
            f"truncated or grown: {len(content)} bytes, the manifest says {size}"
            if size != len(content)
            else "edited after the export: its SHA-256 differs from the manifest's"
        )
        raise ConfigError(
            what, where=str(path), fix="export the bundle again; never edit it by hand"
        )
    return content


def _read_golden(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            golden = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError(f"not a readable sample file: {error}", where=str(path)) from error
    needed = {"joint_names", *GOLDEN_STATE, *GOLDEN_RESULT}
    if missing := sorted(needed - set(golden)):
        raise ConfigError(f"has no '{missing[0]}'", where=str(path), allowed=sorted(needed))
    return golden
