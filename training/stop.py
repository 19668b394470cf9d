"""Ctrl-C and SIGTERM end a run at the next step instead of in the middle of one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):  # noqa: N818 - not an error
    """Raised by `StopRequest.check` where work is to be dropped."""


class StopRequest:
    """A flag set by SIGINT or SIGTERM inside its `with` block; a second signal acts as usual.

    Calling it says whether the run is to stop. Outside the main thread it sees no signals.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._previous: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raise Stopped if the run is to stop."""
        if self._event.is_set():
            raise Stopped

    def set(self) -> None:
        """Ask for the stop from inside the program."""
        self._event.set()

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._on_signal) for s in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._restore()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._event.set()
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
