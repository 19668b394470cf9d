"""The position-only reach as a plain gymnasium.Env, as an experienced user would write it by hand.

The same model, observation, reward, limits and episode as our `reach_position`, in scalar-sized NumPy
without our pipeline; `check_agreement` compares the two before each run of Stable-Baselines3.
"""

from __future__ import annotations

import gymnasium
import mujoco
import numpy as np
from timing import make_env

from rlinf_ros.contract.load import load_contract
from rlinf_ros.robot.description import load_robot
from rlinf_ros.robot.mujoco_model import build_model
from rlinf_ros_training.envs.tasks.reach import ReachPosition


class GymReach(gymnasium.Env):
    """One arm; 50 Hz; 100 steps; observation (30,), action (6,) in ±1."""

    def __init__(self) -> None:
        robot = load_robot("ur5e")
        contract = load_contract(robot.path.parent / "contracts" / "reach_position.yaml")
        limits = contract.action.limits
        self.model = build_model(robot)
        self.data = mujoco.MjData(self.model)
        self.site = self.model.site("tool0").id
        self.home, self.lower, self.upper = robot.home, robot.lower + 0.05, robot.upper - 0.05
        self.step_limit = limits.velocity_rad_s[0] * contract.control_dt_s
        self.tracking = limits.tracking_error_rad
        self.scale = contract.action.terms[0].scale[0]
        self.substeps = round(contract.control_dt_s / self.model.opt.timestep)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (30,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (6,), np.float32)
        self.obs = np.zeros(30, np.float32)

    def _observe(self):
        q, error = self.data.qpos[:6], self.goal - self.tool
        obs = self.obs
        obs[0:6] = q - self.home
        obs[6:12] = np.clip(self.data.qvel[:6] * 0.5, -5.0, 5.0)
        obs[12:18] = (self.command - q) * 5.0
        obs[18:21] = self.tool * 2.0
        obs[21:24] = error * 5.0
        obs[24:30] = self.last_action
        return obs.copy(), error

    def place(self, q, goal):
        """Start an episode from joint positions q (6,) toward goal (3,); returns the observation."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:6] = self.data.ctrl[:6] = q
        self.command, self.goal = np.array(q), np.array(goal)
        self.last_action, self.steps = np.zeros(6), 0
        mujoco.mj_kinematics(self.model, self.data)
        self.tool = self.data.site_xpos[self.site]
        return self._observe()[0]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        q = self.home + ReachPosition.start_spread_rad * self.np_random.uniform(-1, 1, 6)
        goal = self.np_random.uniform(ReachPosition.goal_low, ReachPosition.goal_high)
        return self.place(q, goal), {}

    def step(self, action):
        q, last = self.data.qpos[:6], self.command
        target = last + np.clip(action, -1.0, 1.0) * self.scale
        target = np.clip(target, q - self.tracking, q + self.tracking)
        target = np.clip(target, last - self.step_limit, last + self.step_limit)
        self.command = np.clip(target, self.lower, self.upper)
        self.last_action = (self.command - last) / self.scale
        self.data.ctrl[:6] = self.command
        mujoco.mj_step(self.model, self.data, nstep=self.substeps)
        mujoco.mj_kinematics(self.model, self.data)
        self.steps += 1
        obs, error = self._observe()
        distance = np.sqrt(error @ error)
        effort = self.last_action @ self.last_action
        reward = (
            1.0 - distance / 0.5 + np.exp(-distance / 0.05) - ReachPosition.action_cost * effort
        )
        return obs, float(reward), False, self.steps >= 100, {}


def check_agreement(steps: int = 99) -> None:
    """Raise if observation or reward differ from our VecEnv's for the same states and actions."""
    ours, plain = make_env(1, stagger=False), GymReach()
    first = ours.reset_to_seeds([7])[0]
    state = ours.raw_state()
    obs = plain.place(state["joint_position"][0], state["goal_position"][0])
    np.testing.assert_allclose(obs, first, atol=1e-5)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        action = rng.uniform(-1.5, 1.5, 6).astype(np.float32)
        step = ours.step(action[None])
        obs, reward, *_ = plain.step(action)
        np.testing.assert_allclose(obs, step.obs[0], atol=1e-5)
        np.testing.assert_allclose(reward, step.reward[0], atol=1e-5)
