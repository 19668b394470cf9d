"""The one error type for bad documents, messages and files.

Every message answers four questions: what is wrong, where (a dotted path in a document, a file, or a
topic), what is allowed there, and how to fix it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RlinfError(Exception):
    """Base of all errors that a user can fix; the command line prints it without a traceback."""


class ConfigError(RlinfError, ValueError):
    """A document (contract, robot.yaml, bundle, recipe) is wrong.

    Attributes: `what`, `where`, `allowed` (may be empty), `fix` (may be empty).
    """

    def __init__(
        self, what: str, *, where: str, allowed: Iterable[object] | str = (), fix: str = ""
    ) -> None:
        self.what, self.where, self.fix = what, where, fix
        self.allowed = allowed if isinstance(allowed, str) else ", ".join(str(a) for a in allowed)
        lines = [f"{where}: {what}"]
        if self.allowed:
            lines.append(f"  allowed: {self.allowed}")
        if fix:
            lines.append(f"  fix: {fix}")
        super().__init__("\n".join(lines))


def nearest(word: str, words: Iterable[str]) -> str:
    """`did you mean 'x'?` for the closest of `words`, or an empty string."""
    close = difflib.get_close_matches(str(word), [str(w) for w in words], n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else ""
