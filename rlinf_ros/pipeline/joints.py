"""Joints by name: put the values of a message or a simulator into the robot's own order.

`/joint_states` has had five different orders across UR driver versions and may carry extra joints
(a gripper), so values are looked up by name at the border, once per distinct list of names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..contract.errors import RlinfError, nearest


class JointError(RlinfError, ValueError):
    """A joint is missing, doubled or has no value; the message must not be used for the arm."""


class JointReader:
    """Reads vectors given by joint name into the order of `joint_names`.

    prefix: the driver's `tf_prefix`, put before each name when looking it up.
    """

    def __init__(self, joint_names: Sequence[str], prefix: str = "") -> None:
        self.joint_names = tuple(joint_names)
        self._wanted = tuple(prefix + name for name in self.joint_names)
        self._index: dict[tuple[str, ...], npt.NDArray[np.intp]] = {}

    def index(self, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """Indices into `names` for each wanted joint. Raises JointError if one is missing or doubled."""
        key = tuple(names)
        found = self._index.get(key)
        if found is None:
            for name in self._wanted:
                count = key.count(name)
                if count != 1:
                    problem = "is missing" if count == 0 else f"appears {count} times"
                    raise JointError(
                        f"joint '{name}' {problem}\n  got: {', '.join(key) or 'no names'}"
                        + (f"\n  fix: {hint}" if (hint := nearest(name, key)) and not count else "")
                    )
            found = np.array([key.index(name) for name in self._wanted], dtype=np.intp)
            if len(self._index) < 64:  # a publisher that invents names must not grow the cache
                self._index[key] = found
        return found

    def read(
        self, names: Sequence[str], values: Sequence[float], what: str
    ) -> npt.NDArray[np.float64]:
        """Values (len(names),) → (J,) float64 in the robot's order. Raises JointError.

        what: the name of the vector for errors, such as `velocity`. A value that is NaN or infinite
        passes through: the watchdog judges it, with the joint's name.
        """
        if len(values) != len(names):
            raise JointError(f"{what} has {len(values)} values for {len(names)} joint names")
        return np.asarray(values, dtype=np.float64)[self.index(names)]
