"""From the raw state of the arm to the observation vector, the same in simulation and on the robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat
import numpy as np

from ..contract.model import TERM_HELP, Contract
from ..robot.description import RobotDescription
from .fit import check_fits
from .history import History
from .kinematics import Kinematics
from .limits import bound
from .terms import TERM_FUNCTIONS, Context, Frame, RawState

Array = Any


class ObservationPipeline:
    """Executes `contract.observation` for one robot (or a batch of them).

    The only state is the history of terms that ask for one; call `reset` at the start of an episode
    and after each resume.
    """

    def __init__(self, contract: Contract, robot: RobotDescription) -> None:
        check_fits(contract, robot)
        self.spec = contract.observation
        self.kinematics = Kinematics.from_robot(robot)
        self._terms = []
        for term in self.spec.terms:
            frame = _frame(term.frame, robot, self.kinematics)
            history = History(term.history) if term.history > 1 else None
            self._terms.append(
                (term, TERM_FUNCTIONS[term.kind], frame, _index(term.joints, robot), history)
            )
        # One pass over the whole vector instead of one per term: this is in the simulator's hot path.
        self._offset = np.concatenate([np.tile(t.offset, t.history) for t in self.spec.terms])
        self._scale = np.concatenate([np.tile(t.scale, t.history) for t in self.spec.terms])
        bounds = [t.clip or (-np.inf, np.inf) for t in self.spec.terms]
        widths = [t.width for t in self.spec.terms]
        self._low = np.repeat([low for low, _ in bounds], widths)
        self._high = np.repeat([high for _, high in bounds], widths)
        self._clips = any(t.clip for t in self.spec.terms)

    @property
    def size(self) -> int:
        """Length D of the observation vector."""
        return self.spec.size

    def context(self, state: RawState) -> Context:
        """The state with its tool pose; share one between `observe` and a reward."""
        return Context(state, self.kinematics)

    def reset(self, ids: Array = None) -> None:
        """Forget the histories (of the rows `ids`); the next observation fills them."""
        for *_, history in self._terms:
            if history is not None:
                history.reset(ids)

    def observe(self, context: Context, ids: Array = None) -> Array:
        """Observation (..., D) float32; with ids, for those rows of the batch only."""
        blocks = []
        for term, function, frame, index, history in self._terms:
            block = function(context, term, frame, index)
            blocks.append(block if history is None else history.push(block, ids))
        xp = array_api_compat.array_namespace(*blocks)
        raw = xp.concat(blocks, axis=-1)
        raw -= _like(self._offset, raw, xp)
        raw *= _like(self._scale, raw, xp)
        if self._clips:
            raw = bound(raw, _like(self._low, raw, xp), _like(self._high, raw, xp))
        return xp.astype(raw, xp.float32)

    def histories(self) -> list[History]:
        """The history buffers, for checkpoints."""
        return [history for *_, history in self._terms if history is not None]

    def element_names(self) -> list[str]:
        """A name for each of the D elements: `joint_position[elbow_joint]`, `tcp_position[z]`, ..."""
        names = []
        for term in self.spec.terms:
            elements = (
                term.joints
                or (term.gripper and (term.gripper.joint,))
                or {3: "xyz", 4: term.orientation[-4:]}.get(term.size)
                or range(term.size)
            )
            for age in range(term.history - 1, -1, -1):
                suffix = f"@-{age}" if term.history > 1 else ""
                names += [f"{term.name}[{element}]{suffix}" for element in elements]
        return names

    def table(self) -> str:
        """The terms as a printable table: index range, name, kind, unit, frame, scale, history, meaning."""
        rows = [
            (
                "index",
                "term",
                "kind",
                "unit",
                "frame",
                "offset",
                "scale",
                "clip",
                "history",
                "meaning",
            )
        ]
        start = 0
        for term in self.spec.terms:
            rows.append(
                (
                    f"{start}:{start + term.width}",
                    term.name,
                    term.kind,
                    term.unit,
                    term.frame or "-",
                    _short(term.offset),
                    _short(term.scale),
                    "-" if term.clip is None else f"{term.clip[0]:g}..{term.clip[1]:g}",
                    str(term.history),
                    TERM_HELP[term.kind],
                )
            )
            start += term.width
        return format_table(rows)


def format_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Left-aligned columns with a rule under the first row."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _short(values: tuple[float, ...]) -> str:
    return f"{values[0]:g}" if len(set(values)) == 1 else "per element"


def _like(constant: np.ndarray, x: Array, xp: Any) -> Array:
    if isinstance(x, np.ndarray):
        return constant
    return xp.asarray(constant, dtype=x.dtype, device=array_api_compat.device(x))


def _index(joints: tuple[str, ...], robot: RobotDescription) -> Any:
    index = [robot.joint_names.index(joint) for joint in joints]
    return (
        slice(None) if index == list(range(len(robot.joint_names))) else np.array(index, dtype=int)
    )


def _frame(name: str, robot: RobotDescription, kinematics: Kinematics) -> Frame:
    if name in ("", robot.frames.base):
        return Frame(None, None, is_tool=False)
    if name == robot.frames.tool:
        return Frame(None, None, is_tool=True)
    zero = np.zeros(len(robot.joint_names))
    p_base, r_base = kinematics.forward(zero)
    p_frame, r_frame = Kinematics.from_robot(robot, base=name).forward(zero)
    rotation = r_frame @ r_base.T
    return Frame(rotation, p_frame - rotation @ p_base, is_tool=False)
