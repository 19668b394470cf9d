"""policy_node: runs a PolicyBundle towards goals, as a lifecycle node.

    python -m rlinf_ros.ros.policy_node --ros-args -p bundle:=runs/demo/bundle -p autostart:=true

configure loads the bundle, verifies it and warms it up; activate asks for fresh joint states; then
the action policy/run takes goals. Targets go to the guard, never to a controller.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.timer import Timer

from ..contract.errors import ConfigError, RlinfError
from ..policy.bundle import PolicyBundle
from ..policy.verify import verify
from ..robot.description import load_robot
from ..runtime.control_loop import ControlLoop, TickResult
from ..runtime.goal import GoalFrames
from ..runtime.robot_io import ActionFrame
from ..runtime.run import Run
from ..safety.reason import NO_REASON, Code, Reason
from . import qos
from .convert import reason_message, stamp
from .guarded_arm import GuardedArm
from .messages import PolicyObservation, PolicyStatus
from .node_main import run
from .params import declare, get
from .run_server import RunServer

_HEARTBEAT_PERIOD_S = 0.02  # the guard holds after two that are missing
_SUCCESS, _FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class PolicyNode(LifecycleNode):
    """Parameters, lifecycle, topics and timers around a ControlLoop."""

    def __init__(self) -> None:
        super().__init__("policy_node")
        self.finished: int | None = None
        for name, default, text in (
            ("robot", "ur5e", "robot name or path of its robot.yaml"),
            ("driver", "", "driver profile in robot.yaml; empty: the first one"),
            ("tf_prefix", "", "prefix of joint and frame names, such as left_"),
            ("bundle", "", "folder of the PolicyBundle"),
        ):
            declare(self, name, default, text, read_only=False)
        autostart = declare(self, "autostart", False, "configure and activate without a client")
        wait_s = declare(self, "autostart_timeout_s", 30.0, "longest wait for joint states")
        self._dwell_s = declare(self, "success_dwell_s", 0.2, "time within tolerance that counts")
        self._patience_s = declare(
            self, "patience_s", 1.0, "time without progress after which a run is given up"
        )
        self._state, self._reason = PolicyStatus.UNCONFIGURED, NO_REASON
        self._bundle: PolicyBundle | None = None
        self._loop: ControlLoop | None = None
        self._arm: GuardedArm | None = None
        self._runs: RunServer | None = None
        self._control_timer: Timer | None = None
        self._inference_s = self._age_s = math.nan
        self._status = qos.advertise(self, PolicyStatus, "policy/status", qos.NEWEST)
        self._observation = qos.advertise(self, PolicyObservation, "policy/observation", qos.RECORD)
        self.create_timer(_HEARTBEAT_PERIOD_S, self._tell)
        self._control_group = MutuallyExclusiveCallbackGroup()
        self._autostart_until_s = math.inf
        self._autostart_timer: Timer | None = None
        if autostart:
            self._autostart_until_s = self._now() + wait_s
            self._autostart_timer = self.create_timer(0.1, self._autostart)

    # ---- lifecycle ------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load, verify and warm up the bundle."""
        return self._transition(self._configure, Code.BUNDLE_ERROR)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accept goals, if joint states are fresh."""
        return self._transition(self._activate, Code.NOT_READY)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the run, if there is one, and accept no more."""
        return self._transition(self._deactivate, Code.NOT_READY)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the bundle."""
        return self._transition(self._cleanup, Code.NOT_READY)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """The end, from any state."""
        self._transition(self._cleanup, Code.NOT_READY)
        self.finished = 0
        return _SUCCESS

    def _transition(
        self, step: Callable[[], Reason | None], code: Code
    ) -> TransitionCallbackReturn:
        """Run a step of the lifecycle; what goes wrong is logged and told in policy/status."""
        try:
            refusal = step()
        except RlinfError as error:
            refusal = Reason(code, str(error))
        except Exception as error:  # rclpy would swallow it
            self.get_logger().error(traceback.format_exc())
            refusal = Reason(code, f"unexpected {type(error).__name__}: {error}", "report it")
        self._reason = refusal or NO_REASON
        if refusal is not None:
            self.get_logger().error(str(refusal))
        self._tell()
        return _SUCCESS if refusal is None else _FAILURE

    def _configure(self) -> None:
        robot = load_robot(get(self, "robot", ""))
        driver = robot.driver(get(self, "driver", "") or next(iter(robot.drivers)))
        path, prefix = get(self, "bundle", ""), get(self, "tf_prefix", "")
        if not path:
            raise ConfigError(
                "no bundle given", where="parameter bundle", fix="-p bundle:=FOLDER_OF_A_BUNDLE"
            )
        bundle = PolicyBundle.load(Path(path).expanduser())
        topic = driver.joint_states_topic.lstrip("/")
        loop = ControlLoop.from_bundle(bundle, robot, topic)
        # Before the slow checks, so that joint states have been discovered when they are done.
        self._arm = GuardedArm(
            self, bundle.contract, robot, prefix, topic, needs_velocity=loop.needs_velocity
        )
        try:
            report = verify(bundle, robot)
            loop.warm_up()
            self._runs = RunServer(
                self,
                GoalFrames(robot, prefix),
                dwell_s=self._dwell_s,
                patience_s=self._patience_s,
                now=self._now,
                begin=self._begin,
                ended=self._idle,
            )
        except Exception:
            self._cleanup()
            raise
        self._bundle, self._loop, self._state = bundle, loop, PolicyStatus.INACTIVE
        self.get_logger().info(
            f"bundle '{path}' ({bundle.contract.name}) verified on {report.samples} samples: "
            f"observation within {report.observation_max_abs:.2g}, action within "
            f"{report.action_max_abs:.2g}"
        )

    def _activate(self) -> Reason | None:
        assert self._loop is not None and self._arm is not None
        if (refusal := self._unready()) is not None:
            return refusal
        self._state = PolicyStatus.IDLE
        self._control_timer = self.create_timer(
            self._loop.contract.control_dt_s, self._on_control, callback_group=self._control_group
        )
        return None

    def _unready(self) -> Reason | None:
        """Why there is no usable joint state now, or None."""
        assert self._loop is not None and self._arm is not None
        old = self._loop.check_age(self._arm.read(), self._now())
        return None if old is None else self._arm.refusal or old

    def _deactivate(self) -> None:
        if self._runs is not None:
            self._runs.finish(Reason(Code.NOT_READY, "policy_node was deactivated"))
        if self._control_timer is not None:
            self.destroy_timer(self._control_timer)
            self._control_timer = None
        if self._bundle is not None:
            self._state = PolicyStatus.INACTIVE

    def _cleanup(self) -> None:
        self._deactivate()
        if self._runs is not None:
            self._runs.destroy()
        if self._arm is not None:
            self._arm.destroy()
        self._runs = self._arm = self._loop = self._bundle = None
        self._state = PolicyStatus.UNCONFIGURED

    def _autostart(self) -> None:
        """Configure, wait for joint states, activate; a failure ends the process with code 2."""
        failed = False
        if self._state == PolicyStatus.UNCONFIGURED:
            failed = self.trigger_configure() is not _SUCCESS
        elif self._state == PolicyStatus.INACTIVE:
            late = self._now() > self._autostart_until_s
            if late or self._unready() is None:
                failed = self.trigger_activate() is not _SUCCESS and late
        elif self._autostart_timer is not None:
            self.destroy_timer(self._autostart_timer)
            self._autostart_timer = None
        if failed:
            self.get_logger().fatal(f"autostart failed: {self._reason}")
            self.finished = 2

    def close(self) -> None:
        """Before the process ends: the client of a running goal still gets its result."""
        self._transition(self._deactivate, Code.NOT_READY)

    # ---- control --------------------------------------------------------------------------------

    def _begin(self, now_s: float) -> Reason | None:
        """A goal has come: forget the run before."""
        assert self._loop is not None and self._arm is not None
        if self._state == PolicyStatus.FAULT:
            return self._reason
        if self._control_timer is None:
            remedy = f"ros2 lifecycle set {self.get_fully_qualified_name()} activate"
            return Reason(Code.NOT_READY, "policy_node is not active", remedy, "policy/run")
        self._loop.reset()
        self._arm.start(now_s)
        self._state = PolicyStatus.RUNNING
        return None

    def _on_control(self) -> None:
        try:
            self._control()
        except Exception as error:
            self.get_logger().error(traceback.format_exc())
            text = f"unexpected {type(error).__name__}: {error}"
            self._reason = Reason(Code.POLICY_ERROR, text, "report it with the log")
            self._state = PolicyStatus.FAULT
            if self._runs is not None:
                self._runs.finish(self._reason)

    def _control(self) -> None:
        runs, arm, loop = self._runs, self._arm, self._loop
        if runs is None or arm is None or loop is None:
            return
        run_ = runs.run
        if run_ is None:
            return
        now_s = self._now()
        if (cancelled := runs.cancelled()) is not None:
            runs.finish(cancelled)
            return
        sample = arm.read()
        result = loop.tick(sample, now_s, arm.sent(), run_.goal)
        if sample is not None:
            self._age_s = now_s - sample.stamp_s
        # The end comes before the action: the guard must not see one after it was told of the end.
        if (end := self._judge(run_, arm, now_s, result)) is not None:
            runs.finish(end)
            return
        if result.frame is not None:
            run_.steps += 1
            arm.write(result.frame)
            self._inference_s = result.frame.inference_s
            self._publish_observation(result.frame)
        self._state = PolicyStatus.RUNNING if result.reason is None else PolicyStatus.HOLD
        self._reason = result.reason or NO_REASON
        runs.feed_back(now_s)

    def _judge(self, run_: Run, arm: GuardedArm, now_s: float, result: TickResult) -> Reason | None:
        """Why the run ends now, or None."""
        hindrance, final = arm.hindrance()
        if result.reason is not None:
            hindrance, final = result.reason, False
            if result.reason.code is Code.STALE_INPUT:
                hindrance = arm.refusal or result.reason
        return run_.update(
            now_s, result.position_error_m, result.orientation_error_rad, hindrance, final
        )

    def _idle(self) -> None:
        """A run has ended; the guard holds as soon as it hears of it."""
        if self._state != PolicyStatus.FAULT:
            self._state, self._reason = PolicyStatus.IDLE, NO_REASON
        self._tell()

    def _publish_observation(self, frame: ActionFrame) -> None:
        assert self._loop is not None and self._arm is not None
        if not self._observation.get_subscription_count():
            return
        spec = self._loop.contract.observation
        message = PolicyObservation(
            sequence=self._arm.sequence,
            contract_sha256=self._loop.contract.sha256,
            term_names=[term.name for term in spec.terms],
            term_sizes=[term.width for term in spec.terms],
            data=frame.observation.tolist(),
        )
        message.header.stamp = stamp(frame.stamp_s)
        message.header.frame_id = self._loop.robot.frames.base
        self._observation.publish(message)

    def _now(self) -> float:
        return self.get_clock().now().nanoseconds * 1e-9

    def _tell(self) -> None:
        """The heartbeat."""
        bundle = self._bundle
        message = PolicyStatus(
            state=self._state,
            reason=reason_message(self._reason),
            sequence=self._arm.sequence if self._arm is not None else 0,
            contract_name=bundle.contract.name if bundle is not None else "",
            contract_sha256=bundle.contract.sha256 if bundle is not None else "",
            bundle=str(bundle.path) if bundle is not None else "",
            inference_s=self._inference_s,
            observation_age_s=self._age_s,
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._status.publish(message)


def main(args: list[str] | None = None) -> int:
    """Run until SIGINT, SIGTERM or the lifecycle's end; exit code as in node_main.run."""
    return run("policy_node", PolicyNode, args)


if __name__ == "__main__":
    sys.exit(main())
