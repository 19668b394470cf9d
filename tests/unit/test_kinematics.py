"""Forward kinematics against published poses and against yourdfpy's own."""

from __future__ import annotations

import numpy as np
import pytest
import yourdfpy

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.pipeline.rotations import quat_angle, quat_multiply
from rlinf_ros.robot.description import load_robot
from rlinf_ros.robot.urdf import UrdfJoint

H = np.pi / 2
# From the maker's DH table: robot, q, tool0 position in base_link (m), quaternion xyzw in base_link
POSES = [
    ("ur5", [0, 0, 0, 0, 0, 0], [0.81725, 0.19145, -0.005491], [0, 0.707107, 0.707107, 0]),
    ("ur5", [0, -H, H, -H, -H, 0], [0.4869, 0.10915, 0.431859], [-0.707107, 0.707107, 0, 0]),
    (
        "ur5",
        [0.3, -1.2, 1.5, -1.9, -1.4, 0.7],
        [0.561374, 0.302549, 0.291054],
        [-0.551497, 0.829678, 0.077740, 0.037971],
    ),
    ("ur5e", [0, 0, 0, 0, 0, 0], [0.8172, 0.2329, 0.0628], [0, 0.707107, 0.707107, 0]),
    (
        "ur5e",
        [0, -1.57, 0, -1.57, 0, 0],
        [0.00081, 0.2329, 1.0794],
        [-0.707107, 0.000563, 0.000563, 0.707107],
    ),
    ("ur5e", [0, -H, H, -H, -H, 0], [0.4919, 0.1333, 0.4879], [-0.707107, 0.707107, 0, 0]),
    (
        "ur5e",
        [0.3, -1.2, 1.5, -1.9, -1.4, 0.7],
        [0.558621, 0.330054, 0.347516],
        [-0.551497, 0.829678, 0.077740, 0.037971],
    ),
]
HALF_DIGIT = 1.01e-6  # the table gives six decimals
RZ_PI = np.array([0.0, 0.0, 1.0, 0.0])


@pytest.mark.parametrize(("name", "q", "position", "quat"), POSES)
def test_published_poses_in_base_link_and_in_base(name, q, position, quat):
    robot = load_robot(name)
    p, x = Kinematics.from_robot(robot).forward_pose(np.array(q, dtype=float))
    np.testing.assert_allclose(p, position, atol=HALF_DIGIT if max(map(abs, q)) != 1.57 else 5.1e-6)
    assert quat_angle(x, np.array(quat)) < 3e-6
    p_turned, x_turned = Kinematics.from_robot(robot, base="base").forward_pose(np.array(q, float))
    np.testing.assert_allclose(p_turned, p * [-1, -1, 1], atol=1e-12)
    assert quat_angle(x_turned, quat_multiply(RZ_PI, x)) < 1e-9


def dh_tool_pose(name: str, q: np.ndarray) -> np.ndarray:
    """tool0 in `base` by Denavit-Hartenberg: independent of the URDF."""
    d1, a2, a3, d4, d5, d6 = {
        "ur5": (0.089159, -0.425, -0.39225, 0.10915, 0.09465, 0.0823),
        "ur5e": (0.1625, -0.425, -0.3922, 0.1333, 0.0997, 0.0996),
    }[name]
    pose = np.eye(4)
    rows = zip(q, (d1, 0, 0, d4, d5, d6), (0, a2, a3, 0, 0, 0), (H, 0, 0, H, -H, 0), strict=True)
    for theta, d, a, alpha in rows:
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
        pose = pose @ np.array(
            [
                [ct, -st * ca, st * sa, a * ct],
                [st, ct * ca, -ct * sa, a * st],
                [0, sa, ca, d],
                [0, 0, 0, 1],
            ]
        )
    return pose


@pytest.mark.parametrize("name", ["ur5", "ur5e"])
def test_equals_denavit_hartenberg_and_yourdfpy_everywhere(name):
    robot = load_robot(name)
    kinematics = Kinematics.from_robot(robot, base="base")
    urdf = yourdfpy.URDF.load(str(robot.urdf_path), load_meshes=False)
    q = np.random.default_rng(0).uniform(robot.lower, robot.upper, (50, 6))
    position, matrix = kinematics.forward(q)
    for i in range(len(q)):
        urdf.update_cfg(dict(zip(robot.joint_names, q[i], strict=True)))
        for expected in (dh_tool_pose(name, q[i]), urdf.get_transform("tool0", "base")):
            np.testing.assert_allclose(position[i], expected[:3, 3], atol=1e-12)
            np.testing.assert_allclose(matrix[i], expected[:3, :3], atol=1e-12)


def test_link_poses_equal_yourdfpy():
    robot = load_robot("ur5e")
    urdf = yourdfpy.URDF.load(str(robot.urdf_path), load_meshes=False)
    q = np.array([0.3, -1.2, 1.5, -1.9, -1.4, 0.7])
    urdf.update_cfg(dict(zip(robot.joint_names, q, strict=True)))
    links = Kinematics.from_robot(robot).forward_links(q)
    assert list(links) == [robot.urdf_joints[name].child for name in robot.joint_names]
    for link, (position, matrix) in links.items():
        expected = urdf.get_transform(link, "base_link")
        np.testing.assert_allclose(position, expected[:3, 3], atol=1e-12)
        np.testing.assert_allclose(matrix, expected[:3, :3], atol=1e-12)


def test_batch_shapes_give_the_same_numbers():
    kinematics = Kinematics.from_robot(load_robot("ur5e"))
    q = np.random.default_rng(1).uniform(-3, 3, (4, 5, 6))
    position, matrix = kinematics.forward(q)
    assert position.shape == (4, 5, 3) and matrix.shape == (4, 5, 3, 3)
    single_position, single_matrix = kinematics.forward(q[2, 3])
    np.testing.assert_allclose(position[2, 3], single_position, atol=1e-15)
    np.testing.assert_allclose(matrix[2, 3], single_matrix, atol=1e-15)
    assert kinematics.forward(q[:0])[0].shape == (0, 5, 3)
    assert kinematics.forward(q.astype(np.float32))[0].dtype == np.float32


def test_axes_and_origins_of_any_direction():
    """Tilted axes and origins, against plain 4×4 products."""
    rng = np.random.default_rng(2)

    def rotation() -> np.ndarray:
        q, r = np.linalg.qr(rng.normal(size=(3, 3)))
        q = q * np.sign(np.diag(r))
        return q if np.linalg.det(q) > 0 else q[:, [1, 0, 2]]

    def turn(axis: np.ndarray, angle: float) -> np.ndarray:
        k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        out = np.eye(4)
        out[:3, :3] += np.sin(angle) * k + (1 - np.cos(angle)) * k @ k
        return out

    axes = [np.array([0.0, 0, -1]), np.array([1.0, 0, 0]), np.array([0.0, -1, 0]), *rotation()]
    joints = []
    for i, axis in enumerate(axes):
        origin = np.eye(4)
        origin[:3, :3] = rotation() if i % 2 else np.eye(3)
        origin[:3, 3] = rng.normal(size=3)
        joints.append(
            UrdfJoint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", origin, axis, -1.0, 1.0, 1.0, 1.0)
        )
    names = tuple(joint.name for joint in joints)
    kinematics = Kinematics(np.eye(4), tuple(joints), names[::-1])  # q columns in another order
    q = rng.uniform(-3, 3, len(joints))
    expected, links = np.eye(4), kinematics.forward_links(q[::-1])
    for joint, angle in zip(joints, q, strict=True):
        expected = expected @ joint.origin @ turn(joint.axis, angle)
        np.testing.assert_allclose(links[joint.child][0], expected[:3, 3], atol=1e-12)
        np.testing.assert_allclose(links[joint.child][1], expected[:3, :3], atol=1e-12)
    np.testing.assert_allclose(kinematics.forward(q[::-1])[1], expected[:3, :3], atol=1e-12)


def test_bad_links_and_shapes():
    robot = load_robot("ur5e")
    with pytest.raises(ConfigError, match="did you mean 'tool0'"):
        Kinematics.from_robot(robot, tool="tool")
    with pytest.raises(ConfigError, match="not rigidly connected"):
        Kinematics.from_robot(robot, base="forearm_link", tool="base")
    with pytest.raises(ValueError, match="7 columns for 6 joints"):
        Kinematics.from_robot(robot).forward(np.zeros((2, 7)))
    position, matrix = Kinematics.from_robot(robot, tool="base").forward(np.zeros((2, 6)))
    np.testing.assert_allclose(matrix[1], np.diag([-1.0, -1, 1]), atol=1e-12)
    assert position.shape == (2, 3)
