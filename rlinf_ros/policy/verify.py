"""Re-run a bundle's golden samples through the pipeline and ONNX Runtime on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..contract.errors import RlinfError
from ..contract.model import Contract
from ..pipeline.action import ActionPipeline
from ..pipeline.joints import JointReader
from ..pipeline.observation import ObservationPipeline
from ..robot.description import RobotDescription
from .bundle import GOLDEN_GOAL, PolicyBundle
from .onnx_policy import OnnxPolicy

TOLERANCE = 1e-5


class VerifyError(RlinfError):
    """The bundle does not reproduce its own samples here."""


@dataclass(frozen=True)
class VerifyReport:
    """What was compared, and the largest absolute difference of each kind."""

    samples: int
    observation_max_abs: float
    action_max_abs: float
    command_max_abs: float


def make_policy(bundle: PolicyBundle) -> OnnxPolicy:
    """The bundle's policy, checked against its contract's sizes."""
    contract = bundle.contract
    where = str(bundle.path / "policy.onnx")
    return OnnxPolicy(bundle.onnx, contract.observation.size, contract.action.size, where)


def verify(
    bundle: PolicyBundle, robot: RobotDescription, tolerance: float = TOLERANCE
) -> VerifyReport:
    """Raise ConfigError if the contract does not fit `robot`, VerifyError if a sample differs."""
    contract, golden = bundle.contract, bundle.golden
    observe, act = ObservationPipeline(contract, robot), ActionPipeline(contract, robot)
    policy = make_policy(bundle)
    reader = JointReader(robot.joint_names)
    order = reader.index([str(name) for name in golden["joint_names"]])
    steps, episodes = golden["observation"].shape[:2]
    if not np.any(golden["observation"]) or steps * episodes < 2:
        raise VerifyError(
            f"{bundle.path}: golden samples are empty or all zero: they prove nothing"
        )
    worst = {"observation": 0.0, "action": 0.0, "command": 0.0}
    for t in range(steps):
        state = {key: golden[key][t] for key in ("last_command", "last_action")}
        state |= {key: golden[key][t] for key in GOLDEN_GOAL if key in golden}
        for key in ("joint_position", "joint_velocity"):
            state[key] = golden[key][t][..., order]
        observation = observe.observe(observe.context(state))
        action = policy(observation)
        if not np.array_equal(action, policy(observation)):
            raise VerifyError(f"{bundle.path}: the policy gives two actions for one observation")
        results = {
            "observation": observation,
            "action": action,
            "command": act.command(action, state),
        }
        for kind, value in results.items():
            difference = np.abs(value.astype(np.float64) - golden[kind][t])
            largest = float(np.max(difference))
            if not largest <= tolerance:  # a NaN fails too
                raise VerifyError(
                    f"{bundle.path}: {_name(kind, difference, contract, observe, robot)} differs by "
                    f"{largest:.3g} at golden step {t} (allowed {tolerance:g})\n"
                    "  fix: robot description, package versions or bundle differ from the training "
                    "side's; compare manifest.json's versions, then export again"
                )
            worst[kind] = max(worst[kind], largest)
    return VerifyReport(steps * episodes, worst["observation"], worst["action"], worst["command"])


def _name(
    kind: str,
    difference: npt.NDArray[np.float64],
    contract: Contract,
    observe: ObservationPipeline,
    robot: RobotDescription,
) -> str:
    column = int(np.argmax(np.max(np.nan_to_num(difference, nan=np.inf), axis=0)))
    if kind == "observation":
        return f"observation term '{observe.element_names()[column]}'"
    if kind == "action":
        return f"action of '{contract.action.elements[column]}'"
    return f"command of '{robot.joint_names[column]}'"
