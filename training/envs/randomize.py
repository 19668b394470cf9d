"""Domain randomisation: per-simulation model fields, drawn anew at the start of each episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.batch import Batch


@dataclass(frozen=True)
class Randomization:
    """Relative half-widths of uniform factors; 0 = nominal.

    actuator_gain: stiffness and damping of the joint servos together (how fast the arm follows).
    joint_damping: viscous friction. link_mass: mass and inertia of each link.
    """

    actuator_gain: float = 0.0
    joint_damping: float = 0.0
    link_mass: float = 0.0

    def bind(self, batch: Batch, model: mujoco.MjModel) -> BoundRandomization:
        """Expand the fields that are to be drawn in `batch`."""
        groups = [
            (self.actuator_gain, ("actuator_gainprm", "actuator_biasprm")),
            (self.joint_damping, ("dof_damping",)),
            (self.link_mass, ("body_mass", "body_inertia")),
        ]
        return BoundRandomization(batch, model, [g for g in groups if g[0] > 0.0])


class BoundRandomization:
    """The live fields of one batch."""

    def __init__(
        self, batch: Batch, model: mujoco.MjModel, groups: list[tuple[float, tuple[str, ...]]]
    ) -> None:
        self._groups = groups
        self._nominal = {n: getattr(model, n).copy() for _, names in groups for n in names}
        self._live = {name: batch.expand(name) for name in self._nominal}

    def sample(self, rng: np.random.Generator, ids: npt.NDArray[np.intp]) -> None:
        """Draw one factor per simulation and element (joint or body) for the simulations `ids`."""
        for width, names in self._groups:
            elements = len(self._nominal[names[0]])
            factor = rng.uniform(1.0 - width, 1.0 + width, (len(ids), elements))
            for name in names:
                nominal = self._nominal[name]
                shape = (len(ids), elements) + (1,) * (nominal.ndim - 1)
                self._live[name][ids] = nominal * factor.reshape(shape)

    def state(self) -> dict[str, Any]:
        """The live values, for checkpoints."""
        return {name: live.copy() for name, live in self._live.items()}

    def restore(self, values: dict[str, Any] | None = None) -> None:
        """Set the values of `state`, or the nominal ones."""
        for name, live in self._live.items():
            live[...] = self._nominal[name] if values is None else values[name]
