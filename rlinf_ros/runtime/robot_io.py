"""RobotIO: what a control loop needs of an arm; the ROS side and the tests implement it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ArmSample:
    """A complete joint state in the robot's joint order.

    stamp_s: when it was measured. position: (J,) rad. velocity: (J,) rad/s, None if the source has
    none and the contract needs none.
    """

    stamp_s: float
    position: Vector
    velocity: Vector | None


@dataclass(frozen=True, eq=False)
class ActionFrame:
    """One step of the policy: what it saw, what it said, and the joint targets that follow.

    observation: (D,) float32. raw_action: (A,) float32. targets: (J,) rad or rad/s, within the
    contract's limits. stamp_s: of the sample it was computed from.
    """

    stamp_s: float
    observation: npt.NDArray[np.float32]
    raw_action: npt.NDArray[np.float32]
    targets: Vector
    inference_s: float


class RobotIO(Protocol):
    """An arm behind its guard."""

    def read(self) -> ArmSample | None:
        """The newest complete joint state, None before the first."""
        ...

    def sent(self) -> Vector | None:
        """The newest command (J,) that really went to the controller since `start`; None before."""
        ...

    def start(self, now_s: float) -> None:
        """A run begins: commands of before do not count."""
        ...

    def write(self, frame: ActionFrame) -> None:
        """Hand the targets to the guard."""
        ...
