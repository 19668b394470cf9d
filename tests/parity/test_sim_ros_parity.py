"""The policy node's observation, built from ROS messages, equals the simulator's for the same state.

An episode is recorded in the training environment; each of its states then travels as serialised ROS
messages, in every joint order seen in the field, through the code that the policy node runs.
"""

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from rlinf_ros.ros.convert import Commands, JointStates, stamp
from rlinf_ros.ros.messages import SentCommand
from rlinf_ros.runtime.control_loop import ControlLoop
from rlinf_ros.runtime.goal import Goal
from rlinf_ros_training.config import EnvConfig
from rlinf_ros_training.envs.factory import make_env

from ..unit.test_pipeline import ORDERS

STEPS = 149  # of an episode of 150: the last one would show the next episode's goal


@pytest.fixture(scope="module", params=["reach", "reach_position", "reach_twist"])
def episode(request):
    """(env, rows): what the simulator saw, said and sent at each step of one episode."""
    task = "reach" if request.param == "reach_twist" else request.param
    env = make_env(EnvConfig(task=task, contract=request.param), 1, training=False)
    obs = env.reset_to_seeds([2**31 + 7])[0].copy()
    rng, rows = np.random.default_rng(0), []
    for _ in range(min(STEPS, env.max_episode_steps - 1)):
        state = {key: value[0].copy() for key, value in env.raw_state().items()}
        # beyond ±1 and large enough that the limits change what is sent
        action = rng.normal(0.0, 2.0, 6).astype(np.float32)
        step = env.step(action[None])
        rows.append((state, obs, action, env.raw_state()["last_command"][0].copy()))
        obs = step.obs[0].copy()
    return env, rows


def over_the_wire(message):
    return deserialize_message(serialize_message(message), type(message))


def joint_state(state, order, names, stamp_s, prefix="", gripper=False):
    message = JointState(
        name=[prefix + names[i] for i in order],
        position=state["joint_position"][list(order)].tolist(),
        velocity=state["joint_velocity"][list(order)].tolist(),
    )
    if gripper:
        message.name = [*message.name[:2], "robotiq_85_left_knuckle_joint", *message.name[2:]]
        for field in ("position", "velocity"):
            values = list(getattr(message, field))
            setattr(message, field, [*values[:2], 0.79, *values[2:]])
    message.header.stamp = stamp(stamp_s)
    return over_the_wire(message)


@pytest.mark.parametrize("gripper", [False, True], ids=["arm", "arm+gripper"])
@pytest.mark.parametrize("prefix", ["", "left_"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_observation_and_command_equal_the_simulators(episode, order, prefix, gripper):
    env, rows = episode
    said = []
    loop = ControlLoop(env.contract, env.robot, lambda obs: said[-1][None])
    names = env.robot.joint_names
    reader = JointStates(names, prefix, "joint_states", needs_velocity=True)
    commands = Commands(names, prefix, "position")
    sent, worst_obs, worst_command = None, 0.0, 0.0
    for t, (state, obs, action, command) in enumerate(rows):
        now = 1_800_000_000.0 + 0.02 * t
        sample = reader.read(joint_state(state, order, names, now, prefix, gripper))
        said.append(action)
        goal = Goal(state["goal_position"], state["goal_quat_xyzw"])
        result = loop.tick(sample, now, sent, goal)
        assert result.frame is not None, result.reason
        worst_obs = max(worst_obs, np.abs(result.frame.observation - obs).max())
        worst_command = max(worst_command, np.abs(result.frame.targets - command).max())
        message = commands.sent_message(command, now, t, None)
        sent = commands.sent(over_the_wire(message))
        assert isinstance(message, SentCommand) and isinstance(sent, np.ndarray)
    assert worst_obs <= 1e-6 and worst_command <= 1e-6
    assert len(rows) >= 99 and np.ptp([r[1] for r in rows], axis=0).max() > 0.5  # it moved


def test_a_wrong_order_would_be_noticed(episode):
    """The measure itself: taking positions as they come, not by name, is far above the bound."""
    env, rows = episode
    state, obs, *_ = rows[50]
    wrong = {**state, "joint_position": state["joint_position"][[1, 2, 3, 4, 5, 0]]}
    pipeline = ControlLoop(env.contract, env.robot, lambda obs: obs).observations
    assert np.abs(pipeline.observe(pipeline.context(wrong)) - obs).max() > 0.1
