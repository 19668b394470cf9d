"""Tool actions in the simulator: its own Jacobian, torch as numpy, and a servo that reaches the goal."""

import numpy as np
import pytest
import torch

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.load import parse_contract
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.robot.description import load_robot
from rlinf_ros.robot.mujoco_model import build_model
from rlinf_ros_training.config import EnvConfig
from rlinf_ros_training.envs.factory import find_contract, make_env
from rlinf_ros_training.envs.mujoco_env import MujocoVecEnv
from rlinf_ros_training.envs.tasks.reach import Reach

mujoco = pytest.importorskip("mujoco", reason="needs mujoco: make test installs it")
UR5E = load_robot("ur5e")


def test_jacobian_equals_mujocos():
    model = build_model(UR5E)
    data = mujoco.MjData(model)
    body = next(
        i
        for i in range(model.nbody)
        if model.body(i).name == UR5E.urdf_joints["wrist_3_joint"].child
    )
    kinematics = Kinematics.from_robot(UR5E)
    for q in np.random.default_rng(0).uniform(-3, 3, (20, 6)):
        pose, jacobian = kinematics.jacobian(q)
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jac(model, data, linear, angular, pose.position(), body)
        np.testing.assert_allclose(jacobian, np.concatenate([linear, angular]), atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_torch_gives_the_same_targets_and_the_same_way_back(dtype):
    act = make_env(EnvConfig(task="reach", contract="reach_twist"), 1).actions
    rng = np.random.default_rng(0)
    q = UR5E.home + rng.uniform(-0.5, 0.5, (4, 5, 6))
    q[0, 0] = 0.0, -1.2, 0.0, -1.9, 0.0, 0.0  # elbow and wrist singular
    action = rng.uniform(-1, 1, (4, 5, 6))
    numpy_state = {"joint_position": q, "last_command": q}
    state = {key: torch.as_tensor(value, dtype=dtype) for key, value in numpy_state.items()}
    command = act.command(torch.as_tensor(action, dtype=dtype), state)
    expected = act.command(action, numpy_state)
    assert command.dtype is dtype
    tolerance = 1e-10 if dtype is torch.float64 else 2e-5
    free = np.ones((4, 5), bool)
    free[0, 0] = dtype is torch.float64  # at the singularity float32 may choose otherwise
    np.testing.assert_allclose(command.numpy()[free], expected[free], atol=tolerance)
    back = act.encode(command, state).numpy()
    np.testing.assert_allclose(
        back[free], act.encode(expected, numpy_state)[free], atol=100 * tolerance
    )
    assert np.all(np.isfinite(command.numpy()))


def test_a_servo_in_task_space_reaches_the_goal_through_the_env():
    env = make_env(EnvConfig(task="reach", contract="reach_twist"), 8, training=False)
    env.reset_to_seeds(range(8))
    scale = np.array(env.contract.action.terms[0].scale)
    for _ in range(env.max_episode_steps):
        context = env.observations.context(env.raw_state())
        error = np.concatenate([context.position_error, context.rotation_error], axis=-1)
        step = env.step((3.0 * error / scale).astype(np.float32))
        shown = step.obs[:, -6:]
        if len(step.done_ids) == 0:
            # what was really done, in action units: the last element block of the observation
            np.testing.assert_allclose(shown, env.raw_state()["last_action"], atol=1e-6)
    assert step.done_ids.tolist() == list(range(8)) and step.success.all()
    assert np.all(step.errors["position_error_m"] < 0.01)


def test_a_contract_with_a_gripper_needs_a_simulated_one():
    contract = find_contract("reach_twist", UR5E)
    gripper = (
        "    - name: gripper\n      type: gripper\n      unit: '1'\n      joint: knuckle\n"
        "      policy: {open: 1.0, closed: 0.0}\n      joint_rad: {open: 0.0, closed: 0.8}\n"
    )
    with pytest.raises(ConfigError, match="has no gripper"):
        MujocoVecEnv(parse_contract(contract.text + gripper), UR5E, Reach, 1)
