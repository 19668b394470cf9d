"""Constants of the pipeline beside whatever arrays it is called with."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np

Array = Any  # a numpy array or a torch tensor


def like(constant: np.ndarray, x: Array) -> Array:
    """`constant` as it is beside a numpy array, else as a tensor of the type and device of `x`."""
    if isinstance(x, np.ndarray):
        return constant
    return array_api_compat.array_namespace(x).asarray(
        constant, dtype=x.dtype, device=array_api_compat.device(x)
    )
