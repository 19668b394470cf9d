"""ControlLoop: one step of the policy, from a joint state to joint targets, as in simulation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..contract.model import Contract
from ..pipeline.action import ActionPipeline
from ..pipeline.observation import ObservationPipeline
from ..pipeline.terms import Context
from ..policy.bundle import PolicyBundle
from ..policy.verify import make_policy
from ..robot.description import RobotDescription
from ..safety.reason import Code, Reason
from .goal import Goal
from .robot_io import ActionFrame, ArmSample, Vector


class PolicyFunction(Protocol):
    """Observation (N, D) float32 → action (N, A) float32."""

    def __call__(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True)
class TickResult:
    """Either a frame or the reason why there is none; the tool's errors, NaN while unknown."""

    frame: ActionFrame | None = None
    reason: Reason | None = None
    position_error_m: float = np.nan
    orientation_error_rad: float = np.nan


class ControlLoop:
    """Executes contract and policy for one arm. Call `reset` at the start of each run.

    `last_command` is what the guard really sent last; before its first command of the run it is the
    command that keeps the arm where it is. `last_action` is that command in action units, relative
    to the state that the previous step saw, exactly as the simulator computes it.
    """

    def __init__(
        self,
        contract: Contract,
        robot: RobotDescription,
        policy: PolicyFunction,
        joint_topic: str = "joint_states",
    ) -> None:
        self.contract, self.robot, self._policy, self._topic = contract, robot, policy, joint_topic
        self.observations = ObservationPipeline(contract, robot)
        self.actions = ActionPipeline(contract, robot)
        self.needs_velocity = any(t.kind == "joint_velocity" for t in contract.observation.terms)
        self._before: dict[str, Any] | None = None  # raw state of the previous step

    @classmethod
    def from_bundle(cls, bundle: PolicyBundle, robot: RobotDescription, topic: str) -> ControlLoop:
        """The loop that a bundle's contract and policy ask for."""
        return cls(bundle.contract, robot, make_policy(bundle), topic)

    def reset(self) -> None:
        """Forget the previous run: histories, and the state that last_action refers to."""
        self._before = None
        self.observations.reset()

    def warm_up(self, calls: int = 20) -> None:
        """Call the policy a few times, so that the first step of a run is as quick as any."""
        for _ in range(calls):
            self._policy(np.zeros((1, self.observations.size), dtype=np.float32))

    def tick(
        self, sample: ArmSample | None, now_s: float, sent: Vector | None, goal: Goal
    ) -> TickResult:
        """One step. sent: the guard's newest command (J,) of this run; None before the first.

        A sample that is missing, too old, incomplete or not finite means: the policy is not called.
        """
        if (reason := self._judge(sample, now_s, sent)) is not None:
            return TickResult(reason=reason)
        assert sample is not None
        state = self._state(sample, sent, goal)
        context = self.observations.context(state)
        position_error, orientation_error = errors(context)
        observation = self.observations.observe(context)
        if not np.all(np.isfinite(observation)):
            self.observations.reset()  # a history must not keep what is no number
            element = self.observations.element_names()[_first_bad(observation)]
            reason = Reason(
                Code.NON_FINITE,
                f"observation element '{element}' is not finite; the policy was not called",
                "check the goal and the robot's joint states",
                value=float(observation[_first_bad(observation)]),
            )
            return TickResult(None, reason, position_error, orientation_error)
        started = time.perf_counter()
        action = self._policy(observation[None])[0]
        took_s = time.perf_counter() - started
        self._before = state
        if not np.all(np.isfinite(action)):
            joint = self.contract.action.elements[_first_bad(action)]
            reason = Reason(
                Code.NON_FINITE,
                f"the policy's action for '{joint}' is {action[_first_bad(action)]}",
                "check the bundle with `rlinf-ros verify`",
                joint=joint,
                value=float(action[_first_bad(action)]),
            )
            return TickResult(None, reason, position_error, orientation_error)
        targets = self.actions.command(action, state)
        frame = ActionFrame(sample.stamp_s, observation, action, targets, took_s)
        return TickResult(frame, None, position_error, orientation_error)

    def errors(self, sample: ArmSample, goal: Goal) -> tuple[float, float]:
        """Distance in m and angle in rad of the tool from the goal."""
        state = {
            "joint_position": sample.position,
            "goal_position": goal.position,
            "goal_quat_xyzw": goal.quat_xyzw,
        }
        return errors(self.observations.context(state))

    def check_age(self, sample: ArmSample | None, now_s: float) -> Reason | None:
        """Why `sample` is too old for the contract, or None."""
        limit_s = self.contract.observation.max_age_s
        age_s = np.inf if sample is None else now_s - sample.stamp_s
        if age_s <= limit_s:
            return None
        text = (
            f"the newest joint state on {self._topic} is {age_s:.3g} s old, allowed {limit_s:g} s"
        )
        if sample is None:
            text = f"no complete joint state has arrived on {self._topic} yet"
        return Reason(
            Code.STALE_INPUT,
            text,
            "check the driver, the network and that both clocks agree",
            self._topic,
            value=float(age_s),
            limit=limit_s,
        )

    def _judge(self, sample: ArmSample | None, now_s: float, sent: Vector | None) -> Reason | None:
        if (old := self.check_age(sample, now_s)) is not None:
            return old
        assert sample is not None
        if self.needs_velocity and sample.velocity is None:
            return Reason(
                Code.INCOMPLETE_INPUT,
                "the joint state has no velocity, which the contract needs",
                "let the driver publish velocities, or train a contract without them",
                self._topic,
            )
        for what, values in (
            ("position", sample.position),
            ("velocity", sample.velocity),
            ("last command", sent),
        ):
            if values is not None and not np.all(np.isfinite(values)):
                joint = self.robot.joint_names[_first_bad(values)]
                return Reason(
                    Code.NON_FINITE,
                    f"{what} of '{joint}' is not finite; the policy was not called",
                    "check the driver",
                    self._topic,
                    joint,
                    float(values[_first_bad(values)]),
                )
        return None

    def _state(self, sample: ArmSample, sent: Vector | None, goal: Goal) -> dict[str, Any]:
        last = self.actions.rest_command(sample.position) if sent is None else sent
        state: dict[str, Any] = {
            "joint_position": sample.position,
            "last_command": last,
            "goal_position": goal.position,
            "goal_quat_xyzw": goal.quat_xyzw,
        }
        if sample.velocity is not None:
            state["joint_velocity"] = sample.velocity
        before = state if self._before is None or sent is None else self._before
        state["last_action"] = self.actions.encode(last, before)
        return state


def errors(context: Context) -> tuple[float, float]:
    """Distance in m and angle in rad of the tool from the goal of a context."""
    return (
        float(np.linalg.norm(context.position_error)),
        float(np.linalg.norm(context.rotation_error)),
    )


def _first_bad(values: npt.NDArray[Any]) -> int:
    return int(np.argmax(~np.isfinite(values)))
