"""The action policy/run: goals in, runs of the policy, feedback and a reason for each end.

ROS 2 can reject a goal, but not say why. So a goal that can't be run is accepted and aborted at once,
with the reason in its result. One goal at a time: a second one is aborted, the first goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.action.server import ActionServer, CancelResponse, ServerGoalHandle
from rclpy.node import Node
from rclpy.task import Future

from ..contract.errors import ConfigError
from ..runtime.goal import GoalFrames
from ..runtime.run import Run, RunLimits
from ..safety.reason import Code, Reason
from .convert import reason_message
from .messages import RunPolicy

_FEEDBACK_PERIOD_S = 0.1


class RunServer:
    """Keeps the one active run. `begin` is asked before each run and may refuse; `ended` is told.

    The execute callback only waits for a future that `finish` completes, so one thread is enough.
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
        self._future: Future | None = None
        self._fed_back_s = 0.0
        self._server = ActionServer(
            node,
            RunPolicy,
            "policy/run",
            execute_callback=self._execute,
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
        run, future = self.run, self._future
        if run is None or future is None:
            return
        self.run = self._future = self._handle = None
        self._ended()
        log = self._node.get_logger()
        text = f"run ended after {run.elapsed_s(self._now()):.2f} s, {run.steps} steps: {reason}"
        log.info(text)
        future.set_result((run, reason, run.elapsed_s(self._now())))

    def destroy(self) -> None:
        """Take the action down; the active run must have been finished."""
        self._server.destroy()

    async def _execute(self, handle: ServerGoalHandle) -> Any:
        refusal = self._start(handle)
        if refusal is not None:
            self._node.get_logger().error(f"goal refused: {refusal}")
            handle.abort()
            return _result(None, refusal, 0.0)
        assert self._future is not None
        ended = await self._future
        assert ended is not None, "a run's future is never cancelled"
        run, reason, elapsed_s = ended
        if reason.code is Code.CANCELLED:
            handle.canceled()
        elif run.within_tolerance and reason.code is Code.GOAL_REACHED:
            handle.succeed()
        else:
            handle.abort()
        return _result(run, reason, elapsed_s)

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
        self.run, self._handle, self._future = Run(goal, limits, now_s), handle, Future()
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
