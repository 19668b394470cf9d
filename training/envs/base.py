"""What a learner needs of a simulator: the VecEnv protocol and the result of one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]


@dataclass
class Step:
    """Result of one control step of N environments; arrays may be reused by the next step.

    An episode that ended has been reset already: `obs` holds the first observation of the next one,
    `final_obs` the true last one, row by row for `done_ids`.
    """

    obs: FloatArray  # (N, D)
    reward: FloatArray  # (N,)
    terminated: BoolArray  # (N,) the task ended: the return after it is 0
    truncated: (
        BoolArray  # (N,) cut by time: the return after it is unknown, bootstrap with final_obs
    )
    done_ids: IntArray  # (K,)
    final_obs: FloatArray  # (K, D)
    episode_return: FloatArray  # (K,)
    episode_length: IntArray  # (K,)
    success: BoolArray  # (K,) success at the episode's end
    errors: dict[str, npt.NDArray[np.float64]]  # (K,) each, at the episode's end


class VecEnv(Protocol):
    """N environments that step together. `num_envs`, sizes and times do not change."""

    num_envs: int
    obs_dim: int
    action_dim: int
    control_dt_s: float
    max_episode_steps: int

    def reset(self, seed: int) -> FloatArray:
        """Start new episodes everywhere, as training draws them; (N, D)."""
        ...

    def reset_to_seeds(self, seeds: Sequence[int]) -> FloatArray:
        """Start N episodes, each determined by its own seed alone; (N, D). For evaluation."""
        ...

    def step(self, action: FloatArray) -> Step:
        """Apply actions (N, A) for one control step."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue exactly: arrays, strings and numbers only."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        ...

    def close(self) -> None:
        """Free threads and memory; may be called twice."""
        ...
