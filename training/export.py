"""Export a trained policy as a PolicyBundle that proves itself.

The golden samples are raw robot states recorded in the simulator, with the joints in a shuffled order
as a driver publishes them; the bundle is verified through ONNX Runtime before it is left on disk.
"""

from __future__ import annotations

import logging
import platform
import warnings
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import nn

from rlinf_ros import __version__
from rlinf_ros.contract.errors import RlinfError
from rlinf_ros.policy.bundle import GOLDEN_GOAL, PolicyBundle, save_bundle
from rlinf_ros.policy.onnx_policy import OnnxPolicy
from rlinf_ros.policy.verify import VerifyReport, verify

from .envs.mujoco_env import MujocoVecEnv
from .evaluation import PolicyFunction, model_policy
from .models.actor_critic import MlpActorCritic

GOLDEN_STEPS = 32
EXPORT_TOLERANCE = 1e-5
_PACKAGES = ("numpy", "torch", "onnx", "onnxruntime", "mujoco")


class ExportError(RlinfError):
    """The exported network does not do what the trained one does."""


class _Deterministic(nn.Module):
    """Observation → mean action: what runs on the robot. The normaliser is part of the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.model.mean_action(observation)  # type: ignore[operator]


def to_onnx(model: nn.Module, obs_dim: int) -> bytes:
    """The deterministic policy as an ONNX model, observation [N, D] → action [N, A]; float32.

    Raises ExportError if ONNX Runtime and torch differ by more than 1e-5 on random observations.
    """
    policy = _Deterministic(model).eval()
    example = torch.randn(2, obs_dim)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it reports the lack of torchvision
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # from inside torch.export
        program = torch.onnx.export(
            policy,
            (example,),
            dynamo=True,
            input_names=["observation"],
            output_names=["action"],
            dynamic_shapes=({0: torch.export.Dim("N")},),
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    _strip_metadata(proto)
    onnx.checker.check_model(proto, full_check=True)
    content = proto.SerializeToString()
    with torch.no_grad():
        samples = torch.randn(256, obs_dim, generator=torch.Generator().manual_seed(0)) * 3.0
        expected = policy(samples).numpy()
    actual = OnnxPolicy(content, obs_dim, expected.shape[1], "exported policy")(samples.numpy())
    difference = float(np.max(np.abs(actual - expected)))
    if not difference <= EXPORT_TOLERANCE:
        raise ExportError(
            f"ONNX Runtime differs from torch by {difference:.3g} (allowed {EXPORT_TOLERANCE:g})"
        )
    return content


def _strip_metadata(proto: Any) -> None:
    """Drop the exporter's stack traces: they hold paths of the training machine."""
    for item in (proto, proto.graph, *proto.graph.node, *proto.graph.input, *proto.graph.output):
        item.ClearField("doc_string")
        if hasattr(item, "metadata_props"):
            del item.metadata_props[:]
    for value in (*proto.graph.value_info, *proto.graph.initializer):
        if hasattr(value, "metadata_props"):
            del value.metadata_props[:]


def record_golden(
    env: MujocoVecEnv, policy: PolicyFunction, seed: int
) -> dict[str, npt.NDArray[Any]]:
    """Run the torch policy from the start of an episode; (T, N, ...) arrays for golden.npz."""
    names = env.robot.joint_names
    order = np.random.default_rng(seed).permutation(len(names))
    obs = env.reset_to_seeds(range(seed, seed + env.num_envs)).copy()
    rows: dict[str, list[npt.NDArray[Any]]] = {}
    for _ in range(min(GOLDEN_STEPS, env.max_episode_steps - 1)):
        state = {key: value.copy() for key, value in env.raw_state().items()}
        action = policy(obs)
        row: dict[str, npt.NDArray[Any]] = {
            **{key: state[key][..., order] for key in ("joint_position", "joint_velocity")},
            **{key: state[key] for key in ("last_command", "last_action", *GOLDEN_GOAL)},
            "observation": obs,
            "action": action,
            "command": env.actions.command(action, state),
        }
        for key, value in row.items():
            rows.setdefault(key, []).append(value)
        obs = env.step(action).obs.copy()
    golden: dict[str, npt.NDArray[Any]] = {key: np.stack(values) for key, values in rows.items()}
    golden["joint_names"] = np.array([names[i] for i in order])
    return golden


def export_bundle(
    model: MlpActorCritic,
    env: MujocoVecEnv,
    path: str | Path,
    *,
    training: Mapping[str, Any],
    seed: int = 2**31,
) -> tuple[PolicyBundle, VerifyReport]:
    """Write and verify a bundle of `model` for `env`'s contract, robot and task.

    training: what the manifest says of the run (recipe, steps, success rate). Raises ExportError,
    ConfigError (cannot be written) or VerifyError.
    """
    reports: list[VerifyReport] = []
    saved = save_bundle(
        path,
        contract=env.contract,
        onnx=to_onnx(model, env.obs_dim),
        golden=record_golden(env, model_policy(model), seed),
        manifest={
            "name": f"{env.contract.name}-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}",
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "robot": {"name": env.robot.name, "fingerprint": env.robot.fingerprint},
            "versions": {
                "rlinf_ros": __version__,
                "python": platform.python_version(),
                **{package: version(package) for package in _PACKAGES},
            },
            "training": dict(training),
        },
        check=lambda bundle: reports.append(verify(bundle, env.robot)),
    )
    return PolicyBundle.load(saved), reports[0]
