"""The embedded simulator: N arms in one `mujoco.batch.Batch`, stepped by its C++ threads.

`Batch` gives live NumPy views of all N states and releases the GIL while it steps, so a step costs
little more than its physics and a learner can run beside it. Observation and action go through the
same pipeline as on the robot.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mujoco.batch import Batch

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.model import Contract
from rlinf_ros.pipeline.action import ActionPipeline
from rlinf_ros.pipeline.observation import ObservationPipeline
from rlinf_ros.pipeline.terms import Context, RawState
from rlinf_ros.robot.description import RobotDescription
from rlinf_ros.robot.mujoco_model import build_model

from .base import BoolArray, FloatArray, IntArray, Step
from .randomize import Randomization
from .tasks.task import Episodes, Task

# The simulator's own state, bound live; the rest of MjData follows from it.
_PHYSICS = ("qpos", "qvel", "qacc_warmstart", "ctrl", "time")


class MujocoVecEnv:
    """VecEnv of one task on one robot. Same seed and actions → same results, bit for bit."""

    def __init__(
        self,
        contract: Contract,
        robot: RobotDescription,
        task: type[Task],
        num_envs: int,
        *,
        threads: int = 0,
        randomization: Randomization | None = None,
        stagger: bool = True,
    ) -> None:
        """threads: physics threads, 0 = one per core. stagger: training episodes start at random
        times within an episode, so that their ends do not coincide."""
        self.contract, self.robot, self.num_envs = contract, robot, num_envs
        self.observations = ObservationPipeline(contract, robot)
        self.actions = ActionPipeline(contract, robot)
        _refuse_what_is_not_simulated(contract)
        self.task = task(robot, self.observations.kinematics)
        self.obs_dim, self.action_dim = self.observations.size, self.actions.size
        self.control_dt_s = contract.control_dt_s
        self.max_episode_steps = round(self.task.episode_s / self.control_dt_s)
        self.model = build_model(robot)
        self._substeps = _whole(self.control_dt_s, self.model.opt.timestep, "rate.control_dt_s")
        self._delay = _whole(
            contract.action.delay_s, self.model.opt.timestep, "rate.command_delay_s"
        )
        if self._delay >= self._substeps:
            raise ConfigError(
                f"{contract.action.delay_s} s is a whole control step or more",
                where="contract.rate.command_delay_s",
                allowed=f"< control_dt_s = {self.control_dt_s}",
            )
        self._batch = Batch(self.model, num_envs, threads)
        self._physics = {name: self._batch.bind(name) for name in _PHYSICS}
        self._qpos, self._qvel, self._ctrl = (self._physics[n] for n in ("qpos", "qvel", "ctrl"))
        joints = len(robot.joint_names)
        if self._qpos.shape != (num_envs, joints) or self._ctrl.shape != (num_envs, joints):
            raise ConfigError("the model has more than the arm's joints", where=robot.name)
        self._randomize = (randomization or Randomization()).bind(self._batch, self.model)
        self._velocity_mode = contract.action.command_interface == "velocity"
        self._last_command = np.zeros((num_envs, joints))
        self._last_action = np.zeros((num_envs, self.action_dim))
        self._goal_position = np.zeros((num_envs, 3))
        self._goal_quat = np.zeros((num_envs, 4))
        self._episode_step = np.zeros(num_envs, dtype=np.intp)
        self._episode_return = np.zeros(num_envs, dtype=np.float32)
        self._never = np.zeros(num_envs, dtype=bool)
        self._none = np.zeros(0, dtype=np.intp)
        self._rng = np.random.default_rng(0)
        self._stagger = stagger

    def reset(self, seed: int) -> FloatArray:
        """Start training episodes everywhere; (N, D)."""
        self._rng = np.random.default_rng(seed)
        everyone = np.arange(self.num_envs)
        self._randomize.sample(self._rng, everyone)
        self._start(everyone, self.task.sample(self._rng, self.num_envs))
        if self._stagger:
            self._episode_step[:] = self._rng.integers(0, self.max_episode_steps, self.num_envs)
        self.observations.reset()
        return self.observations.observe(self._context())

    def reset_to_seeds(self, seeds: Sequence[int]) -> FloatArray:
        """Start N episodes, each determined by its own seed alone, on the nominal model; (N, D)."""
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        episodes = [self.task.sample(np.random.default_rng(seed), 1) for seed in seeds]
        self._randomize.restore()
        self._start(
            np.arange(self.num_envs),
            Episodes(
                *(
                    np.concatenate([getattr(e, name) for e in episodes])
                    for name in ("joint_position", "goal_position", "goal_quat_xyzw")
                )
            ),
        )
        self.observations.reset()
        return self.observations.observe(self._context())

    def step(self, action: FloatArray) -> Step:
        """Apply actions (N, A) for one control step; ended episodes restart by themselves."""
        before = self.raw_state()
        command = self.actions.command(action, before)
        self._last_action = self.actions.encode(command, before)
        if self._delay:
            self._batch.step(nstep=self._delay)
        if self._velocity_mode:  # the driver integrates; the simulated actuators follow positions
            self._ctrl += command * self.control_dt_s
        else:
            self._ctrl[:] = command
        self._last_command = command
        self._batch.step(nstep=self._substeps - self._delay)

        self._episode_step += 1
        context = self._context()
        reward = self.task.reward(context, self._last_action).astype(np.float32)
        self._episode_return += reward
        terminated = self.task.terminated(context)
        terminated = self._never if terminated is None else terminated
        truncated = (self._episode_step >= self.max_episode_steps) & ~terminated
        obs = self.observations.observe(context)
        return self._finish(context, obs, reward, terminated, truncated)

    def _finish(
        self,
        context: Context,
        obs: FloatArray,
        reward: FloatArray,
        terminated: BoolArray,
        truncated: BoolArray,
    ) -> Step:
        ids = np.flatnonzero(terminated | truncated)
        result = Step(
            obs=obs,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            done_ids=ids,
            final_obs=obs[ids],
            episode_return=self._episode_return[ids],
            episode_length=self._episode_step[ids],
            success=self._never[ids],
            errors={},
        )
        if len(ids):
            # on the whole batch: its poses are there already, those of some rows would be new work
            result.success = self.task.success(context)[ids]
            result.errors = {k: v[ids] for k, v in self.task.errors(context).items()}
            self._randomize.sample(self._rng, ids)
            self._start(ids, self.task.sample(self._rng, len(ids)))
            self.observations.reset(ids)
            fresh = self.observations.context({k: v[ids] for k, v in self.raw_state().items()})
            obs[ids] = self.observations.observe(fresh, ids)
        return result

    def _start(self, ids: IntArray, episodes: Episodes) -> None:
        self._qpos[ids] = episodes.joint_position
        self._qvel[ids] = 0.0
        self._physics["qacc_warmstart"][ids] = 0.0
        self._physics["time"][ids] = 0.0
        self._ctrl[ids] = episodes.joint_position
        self._goal_position[ids] = episodes.goal_position
        self._goal_quat[ids] = episodes.goal_quat_xyzw
        self._episode_step[ids] = 0
        self._episode_return[ids] = 0.0
        # Before the first command the last one counts as "stay": as the policy node does at its start.
        rest = self.actions.rest_command(episodes.joint_position)
        self._last_command[ids] = rest
        state = {"joint_position": episodes.joint_position, "last_command": rest}
        self._last_action[ids] = self.actions.encode(rest, state)

    def raw_state(self) -> dict[str, npt.NDArray[np.float64]]:
        """The raw state (live views) that the observation is made of; keys as in pipeline.terms."""
        return {
            "joint_position": self._qpos,
            "joint_velocity": self._qvel,
            "last_command": self._last_command,
            "last_action": self._last_action,
            "goal_position": self._goal_position,
            "goal_quat_xyzw": self._goal_quat,
        }

    def observe_state(self, state: RawState) -> FloatArray:
        """Put the simulator into the N raw states and observe them, each without a past; (N, D)."""
        for name, live in self.raw_state().items():
            live[...] = state[name]
        self.observations.reset()
        return self.observations.observe(self._context())

    def _context(self) -> Context:
        return self.observations.context(self.raw_state())

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue exactly."""
        state: dict[str, Any] = {f"physics.{k}": v.copy() for k, v in self._physics.items()}
        state |= {k: v.copy() for k, v in self.raw_state().items() if not k.startswith("joint")}
        state["episode_step"] = self._episode_step.copy()
        state["episode_return"] = self._episode_return.copy()
        state["rng"] = json.dumps(self._rng.bit_generator.state)
        state |= {f"randomization.{k}": v for k, v in self._randomize.state().items()}
        for i, history in enumerate(self.observations.histories()):
            buffer, fresh = history.state()
            state[f"history.{i}.buffer"], state[f"history.{i}.fresh"] = buffer.copy(), fresh.copy()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        if np.shape(state["physics.qpos"]) != self._qpos.shape:
            raise ConfigError(
                f"the saved state has {len(state['physics.qpos'])} environments, this one "
                f"{self.num_envs}",
                where="env.num_envs",
                fix="resume with the recipe that the run was started with",
            )
        for name, view in self._physics.items():
            view[...] = state[f"physics.{name}"]
        self._last_command = np.array(state["last_command"])
        self._last_action = np.array(state["last_action"])
        self._goal_position = np.array(state["goal_position"])
        self._goal_quat = np.array(state["goal_quat_xyzw"])
        self._episode_step = np.array(state["episode_step"])
        self._episode_return = np.array(state["episode_return"])
        self._rng.bit_generator.state = json.loads(state["rng"])
        self._randomize.restore({k: state[f"randomization.{k}"] for k in self._randomize.state()})
        for i, history in enumerate(self.observations.histories()):
            history.restore(
                np.array(state[f"history.{i}.buffer"]), np.array(state[f"history.{i}.fresh"])
            )

    def close(self) -> None:
        """Free the batch and its threads."""
        self._physics = {}
        self._batch = None


def _refuse_what_is_not_simulated(contract: Contract) -> None:
    observed = any(term.gripper for term in contract.observation.terms)
    if observed or contract.action.gripper is not None:
        raise ConfigError(
            "the simulated arm has no gripper",
            where=f"contract '{contract.name}'",
            fix="train a contract without gripper terms here",
        )


def _whole(span_s: float, dt_s: float, where: str) -> int:
    steps = round(span_s / dt_s)
    if abs(steps * dt_s - span_s) > 1e-9:
        raise ConfigError(
            f"{span_s} s is not a whole number of simulation steps of {dt_s} s",
            where=f"contract.{where}",
        )
    return steps
