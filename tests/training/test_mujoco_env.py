"""The VecEnv: exact, repeatable, independent of batch size, honest about how episodes end."""

import numpy as np
import pytest

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros_training.config import EnvConfig, RandomizationConfig
from rlinf_ros_training.envs.factory import make_env
from rlinf_ros_training.envs.tasks.task import find_task

mujoco = pytest.importorskip("mujoco", reason="needs mujoco: make test installs it")


def actions(n, steps, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, n, 6)).astype(np.float32)


def rollout(env, acts):
    out = []
    for a in acts:
        s = env.step(a)
        out.append((s.obs.copy(), s.reward.copy(), s.terminated.copy(), s.truncated.copy()))
    return out


def same(a, b):
    return all(
        np.array_equal(x, y) for s, t in zip(a, b, strict=True) for x, y in zip(s, t, strict=True)
    )


RANDOM = EnvConfig(
    task="reach",
    randomization=RandomizationConfig(actuator_gain=0.2, joint_damping=0.3, link_mass=0.1),
)


@pytest.mark.parametrize("threads", [1, 2])
def test_same_seed_same_bits(threads):
    results = []
    for t in (1, threads):
        env = make_env(EnvConfig(task="reach", threads=t), 6)
        first = env.reset(7)
        results.append([(first.copy(),) * 4, *rollout(env, actions(6, 40))])
    assert same(*results)
    assert not np.array_equal(make_env(EnvConfig(), 6).reset(8), results[0][0][0])


def test_state_dict_continues_exactly():
    env = make_env(RANDOM, 5)
    env.reset(3)
    rollout(env, actions(5, 30))
    saved = env.state_dict()
    tail = rollout(env, actions(5, 170, seed=1))  # past the end of every episode
    other = make_env(RANDOM, 5)
    other.reset(99)
    other.load_state_dict(saved)
    assert same(tail, rollout(other, actions(5, 170, seed=1)))


def test_state_of_another_size_is_refused():
    env = make_env(EnvConfig(), 4)
    env.reset(0)
    with pytest.raises(ConfigError, match="4 environments, this one 3"):
        make_env(EnvConfig(), 3).load_state_dict(env.state_dict())


def test_seeded_episodes_do_not_depend_on_the_batch():
    seeds = [2**31 + i for i in range(6)]
    acts = actions(6, 50)
    whole = make_env(RANDOM, 6, training=False)
    first = whole.reset_to_seeds(seeds).copy()
    steps = rollout(whole, acts)
    for i in (0, 5):
        one = make_env(RANDOM, 1, training=False)
        assert np.array_equal(one.reset_to_seeds(seeds[i : i + 1])[0], first[i])
        for (obs, reward, *_), (obs1, reward1, *_) in zip(
            steps, rollout(one, acts[:, i : i + 1]), strict=True
        ):
            # equal but for the last bit of a sum: BLAS and SIMD may order it by batch size
            np.testing.assert_allclose(obs1[0], obs[i], rtol=0, atol=1e-6)
            np.testing.assert_allclose(reward1[0], reward[i], rtol=0, atol=1e-6)


def test_physics_equals_a_plain_mjdata_loop():
    env = make_env(EnvConfig(task="reach"), 3, training=False)
    env.reset_to_seeds([1, 2, 3])
    data = mujoco.MjData(env.model)
    data.qpos[:] = data.ctrl[:] = env.raw_state()["joint_position"][1]
    for a in actions(3, 30):
        env.step(a)
        data.ctrl[:] = env.raw_state()["last_command"][1]
        mujoco.mj_step(env.model, data, nstep=10)
    assert np.array_equal(data.qpos, env.raw_state()["joint_position"][1])
    assert np.array_equal(data.qvel, env.raw_state()["joint_velocity"][1])


def test_time_out_is_a_truncation_with_the_true_last_observation():
    env = make_env(EnvConfig(task="reach_position"), 2, training=False)
    env.reset_to_seeds([5, 6])
    acts = actions(2, 100)
    for a in acts[:-1]:
        step = env.step(a)
        assert not step.truncated.any() and len(step.done_ids) == 0
    before = env.raw_state()["goal_position"].copy()
    step = env.step(acts[-1])
    assert step.truncated.all() and not step.terminated.any()
    assert step.done_ids.tolist() == [0, 1] and step.episode_length.tolist() == [100, 100]
    names = env.observations.element_names()
    goal_error = [i for i, n in enumerate(names) if n.startswith("goal_position_error")]
    tool = [i for i, n in enumerate(names) if n.startswith("tcp_position")]
    # the final observation belongs to the old goal, the next one to the new goal
    final_goal = step.final_obs[:, tool] / 2.0 + step.final_obs[:, goal_error] / 5.0
    next_goal = step.obs[:, tool] / 2.0 + step.obs[:, goal_error] / 5.0
    np.testing.assert_allclose(final_goal, before, atol=1e-6)
    np.testing.assert_allclose(next_goal, env.raw_state()["goal_position"], atol=1e-6)
    assert np.all(np.abs(next_goal - before).max(axis=1) > 1e-3)
    distance = np.linalg.norm(step.final_obs[:, goal_error] / 5.0, axis=1)
    np.testing.assert_allclose(step.errors["position_error_m"], distance, atol=1e-6)
    assert np.array_equal(step.success, distance < 0.03)


def test_last_action_is_what_was_really_sent():
    env = make_env(EnvConfig(task="reach"), 1, training=False)
    env.reset_to_seeds([1])
    state = env.raw_state()
    wild = np.full((1, 6), 30.0, np.float32)  # clipped to 1
    before = state["last_command"].copy()
    env.step(wild)
    sent = env.raw_state()["last_command"] - before
    np.testing.assert_allclose(env.raw_state()["last_action"], sent / 0.05, atol=1e-9)
    assert np.all(np.abs(sent) <= 0.05 + 1e-12)


def test_commands_obey_the_contract_whatever_the_policy_says():
    env = make_env(RANDOM, 16)
    env.reset(1)
    limits = env.contract.action.limits
    last = env.raw_state()["last_command"].copy()
    for a in actions(16, 120, seed=4) * 50:
        step = env.step(a)
        now, going = env.raw_state()["last_command"], np.ones(16, bool)
        going[step.done_ids] = False
        assert np.abs(now - last)[going].max() <= limits.velocity_rad_s[0] * 0.02 + 1e-12
        assert np.all(now >= env.robot.lower + limits.position_margin_rad)
        assert np.all(now <= env.robot.upper - limits.position_margin_rad)
        assert np.isfinite(step.obs).all() and np.isfinite(step.reward).all()
        last = now.copy()


def test_randomisation_changes_training_and_not_evaluation():
    env = make_env(RANDOM, 4)
    env.reset(0)
    gains = env._batch.expanded("actuator_gainprm")[:, :, 0]
    assert np.all(np.ptp(gains, axis=0) > 0)
    nominal = env.model.actuator_gainprm[:, 0]
    assert np.all(np.abs(gains / nominal - 1.0) <= 0.2)
    env.reset_to_seeds([1, 2, 3, 4])
    assert np.array_equal(env._batch.expanded("actuator_gainprm")[2, :, 0], nominal)


def test_a_user_file_is_enough_for_a_new_task(tmp_path):
    file = tmp_path / "high.py"
    file.write_text(
        "from rlinf_ros_training.envs.tasks.reach import ReachPosition\n"
        "class ReachHigh(ReachPosition):\n"
        "    goal_low = (0.3, -0.2, 0.6)\n"
        "    goal_high = (0.5, 0.2, 0.8)\n"
    )
    env = make_env(EnvConfig(task=f"{file}:ReachHigh"), 8)
    env.reset(0)
    assert np.all(env.raw_state()["goal_position"][:, 2] >= 0.6)
    with pytest.raises(ConfigError, match=r"has no 'Nope'[\s\S]*ReachHigh"):
        find_task(f"{file}:Nope")
    with pytest.raises(ConfigError, match="did you mean 'reach'"):
        find_task("rech")
