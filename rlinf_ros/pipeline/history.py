"""The last H values of a term, oldest first; the first value after a reset fills all places."""

from __future__ import annotations

from typing import Any

import array_api_compat

Array = Any


class History:
    """A buffer (..., H, D) that is created by the first value pushed.

    Filling with the first value, never with zeros, is what a policy sees at the start of an episode
    in simulation and after a resume on the robot alike.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._buffer: Array = None
        self._fresh: Array = None  # (...,) bool: the next push fills all places

    def reset(self, ids: Array = None) -> None:
        """Forget all rows, or the rows `ids` of the first batch dimension."""
        if self._buffer is None:
            return
        if ids is None:
            self._buffer = None
        else:
            self._fresh[ids] = True

    def push(self, value: Array, ids: Array = None) -> Array:
        """Add value (..., D) and return the flattened history (..., H·D); with ids, for those rows."""
        xp = array_api_compat.array_namespace(value)
        if self._buffer is None:
            if ids is not None:
                raise ValueError("the first value must be given for all rows")
            self._buffer = xp.stack([value] * self.length, axis=-2)
            self._fresh = xp.zeros(value.shape[:-1], dtype=xp.bool)
            return xp.reshape(self._buffer, (*value.shape[:-1], -1))
        rows = self._buffer if ids is None else self._buffer[ids]
        fresh = self._fresh if ids is None else self._fresh[ids]
        shifted = xp.concat([rows[..., 1:, :], value[..., None, :]], axis=-2)
        filled = xp.stack([value] * self.length, axis=-2)
        rows = xp.where(fresh[..., None, None], filled, shifted)
        if ids is None:
            self._buffer, self._fresh = rows, xp.zeros(value.shape[:-1], dtype=xp.bool)
        else:
            self._buffer[ids] = rows
            self._fresh[ids] = False
        return xp.reshape(rows, (*value.shape[:-1], -1))

    def state(self) -> tuple[Array, Array]:
        """(buffer, fresh) for checkpoints; (None, None) before the first value."""
        return self._buffer, self._fresh

    def restore(self, buffer: Array, fresh: Array) -> None:
        """Continue from what `state` returned."""
        self._buffer, self._fresh = buffer, fresh
