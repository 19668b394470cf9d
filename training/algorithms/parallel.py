"""Run a few tasks side by side in threads, or one after the other, with the same results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rlinf_ros.contract.errors import RlinfError

RunTasks = Callable[[Mapping[str, Callable[[], Any]]], dict[str, Any]]


def run_tasks(
    tasks: Mapping[str, Callable[[], Any]], *, threads: bool = False, timeout_s: float = 600.0
) -> dict[str, Any]:
    """Run every task to its end and return the results by name.

    The tasks must not write what another one reads. With `threads` each gets its own thread:
    physics and torch release the GIL. All tasks end before the first error, in the tasks' order, is
    raised; a task that takes longer than timeout_s is an RlinfError that names it.
    """
    if not threads or len(tasks) == 1:
        return {name: task() for name, task in tasks.items()}
    results: dict[str, Any] = {}
    errors: dict[str, BaseException] = {}

    def call(name: str) -> None:
        try:
            results[name] = tasks[name]()
        except BaseException as error:
            errors[name] = error

    workers = {
        name: threading.Thread(target=call, args=(name,), name=name, daemon=True) for name in tasks
    }
    deadline = time.monotonic() + timeout_s
    for worker in workers.values():
        worker.start()
    for name, worker in workers.items():
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            raise RlinfError(
                f"'{name}' took longer than {timeout_s:g} s, the run waits for it no longer\n"
                "  fix: raise runner.timeout_s if the work is that slow, else look for what hangs"
            )
    for name in tasks:
        if name in errors:
            raise errors[name]
    return results
