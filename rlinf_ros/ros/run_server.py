"""The action policy/run: goals in, runs of the policy, feedback and a reason for each end.

ROS 2 can reject a goal, but not say why. So a goal that can't be run is accepted and aborted at once,
with the reason in its result. One goal at a time: a second one is aborted, the first goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.action.server import ActionServer, CancelResponse, ServerGoalHandle
from rclpy.node import Node

from ..contract.errors import ConfigError
from ..runtime.goal import GoalFrames
from ..runtime.run import Run, RunLimits
from ..safety.reason import Code, Reason
from .convert import reason_message
from .messages import RunPolicy

_FEEDBACK_PERIOD_S = 0.1


class RunServer:
    """Keeps the one active run. `begin` is asked before each run and may refuse; `ended` is told.

    A goal stays in the state ACCEPTED while it is run and is executed, in ROS 2's sense, only at its
    end: an execute callback that waits, even as a coroutine, keeps rclpy's executors busy at 100 %.
    """

    def __init__(
        self,
        node: Node,
        frames: GoalFrames,
        *,
        dwell_s: float,
        patience_s: float,
        now: Callable[[], float],
        begin: Callable[[float], Reason | None],
        ended: Callable[[], None],
    ) -> None:
        self._node, self._frames, self._now = node, frames, now
        self._dwell_s, self._patience_s = dwell_s, patience_s
        self._begin, self._ended = begin, ended
        self.run: Run | None = None
        self._handle: ServerGoalHandle | None = None
        self._fed_back_s = 0.0
        self._server = ActionServer(
            node,
            RunPolicy,
            "policy/run",
            execute_callback=lambda _: RunPolicy.Result(),  # never used, see `_end`
            handle_accepted_callback=self._accept,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    def cancelled(self) -> Reason | None:
        """The reason if the client of the active run has cancelled it."""
        if self._handle is not None and self._handle.is_cancel_requested:
            return Reason(Code.CANCELLED, "the client cancelled the goal")
        return None

    def feed_back(self, now_s: float) -> None:
        """Tell the client how far the run is, at 10 Hz."""
        run, handle = self.run, self._handle
        if run is None or handle is None or now_s - self._fed_back_s < _FEEDBACK_PERIOD_S:
            return
        self._fed_back_s = now_s
        handle.publish_feedback(
            RunPolicy.Feedback(
                position_error_m=float(run.position_error_m),
                orientation_error_rad=float(run.orientation_error_rad),
                steps=run.steps,
                elapsed_s=float(run.elapsed_s(now_s)),
            )
        )

    def finish(self, reason: Reason) -> None:
        """End the active run, if there is one, because of `reason`."""
        run, handle = self.run, self._handle
        if run is None or handle is None:
            return
        elapsed_s = run.elapsed_s(self._now())
        self.run = self._handle = None
        self._ended()
        self._node.get_logger().info(
            f"run ended after {elapsed_s:.2f} s, {run.steps} steps: {reason}"
        )
        self._end(handle, reason, run, elapsed_s)

    def destroy(self) -> None:
        """Take the action down; the active run must have been finished."""
        self._server.destroy()

    def _accept(self, handle: ServerGoalHandle) -> None:
        refusal = self._start(handle)
        if refusal is not None:
            self._node.get_logger().error(f"goal refused: {refusal}")
            self._end(handle, refusal, None, 0.0)

    def _end(
        self, handle: ServerGoalHandle, reason: Reason, run: Run | None, elapsed_s: float
    ) -> None:
        def execute(handle: ServerGoalHandle) -> Any:
            if handle.is_cancel_requested:
                handle.canceled()
            elif reason.code is Code.GOAL_REACHED:
                handle.succeed()
            else:
                handle.abort()
            return _result(run, reason, elapsed_s)

        handle.execute(execute)

    def _start(self, handle: ServerGoalHandle) -> Reason | None:
        if self.run is not None:
            text = "another goal is being run"
            return Reason(Code.NOT_READY, text, "wait for its end or cancel it", "policy/run")
        request, now_s = handle.request, self._now()
        pose = request.target.pose
        p, q = pose.position, pose.orientation
        limits = RunLimits(
            request.duration_s,
            request.position_tolerance_m,
            request.orientation_tolerance_rad,
            request.stop_on_success,
            self._dwell_s,
            self._patience_s,
        )
        try:
            limits.check()
            frame_id = request.target.header.frame_id
            goal = self._frames.read(frame_id, (p.x, p.y, p.z), (q.x, q.y, q.z, q.w))
        except ConfigError as error:
            text = f"{error.where}: {error.what}"
            if error.allowed:
                text += f"; allowed: {error.allowed}"
            return Reason(Code.INVALID_GOAL, text, error.fix, "policy/run")
        if (refusal := self._begin(now_s)) is not None:
            return refusal
        self.run, self._handle = Run(goal, limits, now_s), handle
        self._fed_back_s = now_s
        return None


def _result(run: Run | None, reason: Reason, elapsed_s: float) -> Any:
    result = RunPolicy.Result(
        success=reason.code is Code.GOAL_REACHED,
        reason=reason_message(reason),
        position_error_m=float("nan"),
        orientation_error_rad=float("nan"),
        elapsed_s=float(elapsed_s),
    )
    if run is not None:
        result.position_error_m = float(run.position_error_m)
        result.orientation_error_rad = float(run.orientation_error_rad)
        result.steps = run.steps
    return result
