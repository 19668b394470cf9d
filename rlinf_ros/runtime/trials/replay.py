"""Recomputes each observation of a trial from joint state, sent commands and goal alone."""

from __future__ import annotations

import numpy as np

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.model import Contract
from rlinf_ros.pipeline.action import ActionPipeline
from rlinf_ros.pipeline.observation import ObservationPipeline
from rlinf_ros.robot.description import RobotDescription
from rlinf_ros.runtime.trials.goals import TrialGoal
from rlinf_ros.runtime.trials.recording import Array, Observation, Recording

_STAMP_TOLERANCE_NS = 1_000  # a stamp that went through float seconds is off by up to 240 ns
_SAME = 1e-6


class Replay:
    """The pipelines of a contract, run over a recording."""

    def __init__(self, contract: Contract, robot: RobotDescription) -> None:
        self._observe = ObservationPipeline(contract, robot)
        self._act = ActionPipeline(contract, robot)

    def errors(self, positions: Array, goal: TrialGoal) -> tuple[Array, Array]:
        """Distance (S,) in m and angle (S,) in rad of the tool; positions (S, J) in robot order."""
        n = len(positions)
        context = self._observe.context(
            {
                "joint_position": positions,
                "goal_position": np.tile(goal.position, (n, 1)),
                "goal_quat_xyzw": np.tile(goal.quat_xyzw, (n, 1)),
            }
        )
        return (
            np.linalg.norm(context.position_error, axis=-1),
            np.linalg.norm(context.rotation_error, axis=-1),
        )

    def run(
        self, recording: Recording, goal: TrialGoal, columns: Array
    ) -> tuple[list[dict[str, Array]], float]:
        """A row per observation (see record.py) and the largest difference to what was published.

        columns: of the robot's joints in the states. Raises ConfigError if the joint state of an
        observation was not recorded.
        """
        self._observe.reset()
        stamps = np.array([state.stamp_ns for state in recording.states])
        rows: list[dict[str, Array]] = []
        before: dict[str, Array] | None = None
        worst, newest = 0.0, -1
        for seen in recording.observations:
            i = int(np.argmin(np.abs(stamps - seen.stamp_ns)))
            state = recording.states[i]
            if abs(state.stamp_ns - seen.stamp_ns) > _STAMP_TOLERANCE_NS:
                raise ConfigError(
                    f"the joint state of observation {seen.sequence} was not recorded",
                    where="joint_states",
                    fix="free the machine: the recorder could not keep up",
                )
            raw = {
                "joint_position": state.position[columns],
                "joint_velocity": state.velocity[columns],
                "goal_position": goal.position,
                "goal_quat_xyzw": goal.quat_xyzw,
            }
            before, newest, difference = self._match(raw, before, recording, seen, newest)
            worst = max(worst, difference)
            rows.append(
                {
                    "sequence": np.array(seen.sequence),
                    "stamp_ns": np.array(state.stamp_ns),
                    "position": state.position,
                    "velocity": state.velocity,
                    "commanded": np.array(newest >= 0),
                    "observation": seen.data,
                }
                | {k: v for k, v in before.items() if not k.startswith("joint")}
            )
        return rows, worst

    def _match(
        self,
        raw: dict[str, Array],
        before: dict[str, Array] | None,
        recording: Recording,
        seen: Observation,
        earliest: int,
    ) -> tuple[dict[str, Array], int, float]:
        """The raw state, the index of its last command (-1: none yet) and the difference.

        By rule the last command is the newest one sent before the joint state's stamp. The policy
        node reads it a little later, and on a busy machine a command may reach it late. So another
        one is taken if the rule's does not give the observation: one sent before the answer to this
        very step, and not older than the one of the step before, `earliest`.
        """
        commands = recording.commands
        known = sum(c.stamp_ns <= seen.stamp_ns for c in commands) - 1
        answers = (i for i, c in enumerate(commands) if c.sequence >= seen.sequence)
        end = next(answers, len(commands))
        order = [*range(known, end), *range(known - 1, earliest - 1, -1)]
        histories = self._observe.histories()
        saved = [history.state() for history in histories]
        best: tuple[dict[str, Array], int, float] | None = None
        for i in order or [earliest]:
            for history, buffers in zip(histories, saved, strict=True):
                history.restore(*buffers)
            state = dict(raw)
            rest = self._act.rest_command(raw["joint_position"])
            state["last_command"] = rest if i < 0 else commands[i].values
            anchor = state if before is None or i < 0 else before
            state["last_action"] = self._act.encode(state["last_command"], anchor)
            observation = self._observe.observe(self._observe.context(state))
            difference = float(np.max(np.abs(observation - seen.data)))
            if best is None or difference < best[2]:
                best = state, i, difference
            if difference <= _SAME:
                break
        assert best is not None
        return best
