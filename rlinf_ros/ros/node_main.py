"""The frame of each node process: start, spin, and an orderly end on SIGINT and SIGTERM."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import rclpy
from rclpy.signals import SignalHandlerOptions

# Measured with joint states at 500 Hz: the events executor needs 28 % of a core where the other needs 46 %.
try:
    from rclpy.experimental.events_executor import EventsExecutor as Executor
except ImportError:  # Humble, Jazzy
    from rclpy.executors import SingleThreadedExecutor as Executor

from ..contract.errors import RlinfError

_WAKE_S = 0.1  # longest wait before a signal is noticed
_LAST_SPINS = 10  # callbacks after `close`, so that a client still gets the result of its goal


def run(name: str, make: Callable[[], Any], args: list[str] | None = None) -> int:
    """Run a node until a signal, its own end or an error. Returns the exit code.

    make: gives an rclpy Node with `finished` (its exit code, None while it runs) and `close()`,
    which leaves the arm in order while publishers still work.
    0: ended by a signal or by itself; 1: an unexpected error; 2: a bad parameter or file.
    rclpy's own signal handlers would shut the context down at once, before a last command or status
    could be sent; ours only set a flag.
    """
    signals: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except Exception as error:  # RCLError, which rclpy does not export, or an unknown argument
        print(f"{name}: bad ROS arguments: {error}", file=sys.stderr)
        return 2
    executor = Executor()
    node = None
    try:
        node = make()
        executor.add_node(node)
        while not signals and node.finished is None:
            executor.spin_once(timeout_sec=_WAKE_S)
        return node.finished or 0
    except RlinfError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except Exception:
        print(f"{name}: unexpected error\n{traceback.format_exc()}", file=sys.stderr)
        return 1
    finally:
        if node is not None:
            node.close()
            for _ in range(_LAST_SPINS):
                executor.spin_once(timeout_sec=0.01)
        executor.shutdown(timeout_sec=1.0)
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
