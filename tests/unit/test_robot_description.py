"""robot.yaml and URDF: what they say, that they agree, and that wrong files are refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yourdfpy

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.robot.description import known_robots, load_robot

ROBOTS = Path(__file__).resolve().parents[2] / "robots"
PAN, LIFT, ELBOW, W1, W2, W3 = JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)


@pytest.fixture
def copy(tmp_path: Path):
    """A copy of the UR5e with `old` replaced by `new` in one of its files; returns robot.yaml."""

    def edit(old: str = "", new: str = "", file: str = "robot.yaml") -> Path:
        for name in ("robot.yaml", "ur5e.urdf"):
            shutil.copy(ROBOTS / "ur5e" / name, tmp_path / name)
        text = (tmp_path / file).read_text()
        assert old in text
        (tmp_path / file).write_text(text.replace(old, new, 1))
        return tmp_path / "robot.yaml"

    return edit


@pytest.mark.parametrize("name", ["ur5e", "ur5"])
def test_what_the_maker_publishes(name):
    robot = load_robot(name)
    assert robot.name == name and robot.joint_names == JOINTS
    np.testing.assert_array_equal(robot.upper, np.pi * np.array([2, 2, 1, 2, 2, 2]))
    np.testing.assert_array_equal(robot.lower, -robot.upper)
    np.testing.assert_array_equal(robot.velocity, np.full(6, np.pi))
    np.testing.assert_array_equal(robot.effort, [150, 150, 150, 28, 28, 28])
    half = np.pi / 2
    np.testing.assert_array_equal(robot.home, [0, -half, half, -half, -half, 0])
    assert (robot.frames.base, robot.frames.tool) == ("base_link", "tool0")
    assert robot.driver("ur_jazzy").update_rate_hz == (500 if name == "ur5e" else 125)
    # 20 rad/s over one controller cycle is the last step that the arm's program follows
    step = 20 / robot.driver("ur_jazzy").update_rate_hz
    assert robot.safety.max_command_step_rad == pytest.approx(step)


def test_driver_dialects():
    robot = load_robot("ur5e")
    orders = {name: driver.joint_state_order for name, driver in robot.drivers.items()}
    assert orders == {
        "ur_humble": (PAN, W2, W3, W1, ELBOW, LIFT),
        "ur_jazzy": tuple(sorted(JOINTS)),
        "ur_lyrical": JOINTS,
    }
    humble, lyrical = robot.driver("ur_humble"), robot.driver("ur_lyrical")
    assert humble.command_topic("position") == "/forward_position_controller/commands"
    assert humble.command_topic("velocity") == "/forward_velocity_controller/commands"
    name = "/scaled_joint_trajectory_controller/joint_trajectory"
    assert humble.command_topic("trajectory") == name
    assert lyrical.command_topic("trajectory") == "/joint_trajectory_controller/joint_trajectory"
    with pytest.raises(ConfigError, match="position, velocity, trajectory"):
        humble.command_topic("effort")
    with pytest.raises(ConfigError, match="did you mean 'ur_humble'"):
        robot.driver("ur_humbel")


def test_arrays_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        load_robot("ur5e").home[0] = 1.0


def test_found_by_name_by_path_and_by_environment(copy, tmp_path, monkeypatch):
    path = copy("name: ur5e", "name: mine")
    assert load_robot(path).name == "mine"
    assert load_robot(path.parent).name == "mine"
    assert load_robot(str(path)).name == "mine"
    folder = tmp_path / "more" / "mine"
    folder.mkdir(parents=True)
    for file in ("robot.yaml", "ur5e.urdf"):
        shutil.copy(tmp_path / file, folder / file)
    monkeypatch.setenv("RLINF_ROBOTS_PATH", f"/nowhere:{folder.parent}")
    assert load_robot("mine").path == folder / "robot.yaml"
    assert {"mine", "ur5", "ur5e"} <= set(known_robots())


def test_found_in_a_ros_prefix(copy, tmp_path, monkeypatch):
    path = copy("name: ur5e", "name: installed")
    share = tmp_path / "prefix" / "share" / "rlinf_ros" / "robots" / "installed"
    shutil.copytree(path.parent, share, ignore=lambda *_: ["prefix"])
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path / 'prefix'}")
    assert load_robot("installed").path == share / "robot.yaml"


def test_unknown_name_lists_the_known():
    with pytest.raises(ConfigError, match=r"(?s)unknown robot 'ur5s'.*ur5, ur5e.*did you mean"):
        load_robot("ur5s")


def test_fingerprint_covers_both_files(copy):
    original = load_robot(copy()).fingerprint
    assert load_robot(copy()).fingerprint == original
    assert load_robot(copy("description: Universal", "description: The")).fingerprint != original
    assert load_robot(copy("0.0745", "0.0746", "ur5e.urdf")).fingerprint != original


@pytest.mark.parametrize(
    ("old", "new", "file", "message"),
    [
        ("effort_nm: 150.0", "effort_Nm: 150.0", "robot.yaml", r"joints\[0\].effort_nm: missing"),
        ("urdf: ur5e.urdf", "urdf: ur5e.urdf\ncolour: red", "robot.yaml", "unknown key 'colour'"),
        ("robot/v1", "robot/v2", "robot.yaml", "schema.*rlinf_ros/robot/v1"),
        ("- name: wrist_3_joint", "- name: elbow_joint", "robot.yaml", "distinct joints"),
        ("- name: wrist_3_joint", "- name: wrist_9_joint", "robot.yaml", "missing"),
        ("velocity_rad_s: 3.1", "velocity_rad_s: 3.2", "robot.yaml", r"\[0\].velocity_rad_s.*URDF"),
        ('upper="3.14', 'upper="3.13', "ur5e.urdf", r"joints\[2\].position_rad\[1\].*URDF's 3.13"),
        ('joint name="elbow_', 'joint name="elbo_', "ur5e.urdf", "not those of the URDF's chain"),
        ("tool: tool0", "tool: tool1", "robot.yaml", "no link 'tool1'"),
        ("base: base_link ", "base: forearm_link ", "robot.yaml", "not those of the URDF's chain"),
        ("urdf: ur5e.urdf", "urdf: gone.urdf", "robot.yaml", "gone.urdf: no such URDF"),
        ("</robot>", "", "ur5e.urdf", "not a readable URDF"),
        ("  wrist_3_joint: 0.0", "  wrist_3_joint: 7.0", "robot.yaml", "home_rad.wrist_3_joint"),
        ("- elbow_joint\n", "- elbow\n", "robot.yaml", "joint_state_order"),
        ("lower_m: [-0.95", "lower_m: [0.99", "robot.yaml", "0.99 is not below"),
        ('type="revolute"', 'type="prismatic"', "ur5e.urdf", "'prismatic' is not supported"),
    ],
)
def test_wrong_files_are_refused_by_place(copy, old, new, file, message):
    path = copy(old, new, file)
    with pytest.raises(ConfigError, match=re.compile(message, re.DOTALL)) as error:
        load_robot(path)
    assert str(path.parent) in str(error.value)


MASSES = {
    "ur5e": [3.761, 8.058, 2.846, 1.37, 1.3, 0.365],
    "ur5": [3.7, 8.393, 2.33, 1.219, 1.219, 0.1879],
}


@pytest.mark.parametrize("name", ["ur5e", "ur5"])
def test_inertias_are_the_published_masses_over_the_colliders(name):
    robot = load_robot(name)
    model = yourdfpy.URDF.load(str(robot.urdf_path), build_scene_graph=False, load_meshes=False)
    links = {link.name: link for link in model.robot.links}
    moving = [links[robot.urdf_joints[joint].child] for joint in robot.joint_names]
    assert [link.inertial.mass for link in moving] == MASSES[name]
    for link in moving:
        center, inertia = solid(link)
        np.testing.assert_allclose(link.inertial.origin[:3, 3], center, atol=1e-6)
        np.testing.assert_allclose(link.inertial.inertia, inertia, rtol=1e-4, atol=1e-7)


def solid(link: yourdfpy.Link) -> tuple[np.ndarray, np.ndarray]:
    """Centre (3,) and inertia (3, 3) about it, of the link's mass at uniform density."""
    parts = []
    for collision in link.collisions:
        shape, origin = collision.geometry, collision.origin
        if shape.cylinder is not None:
            r, h = shape.cylinder.radius, shape.cylinder.length
            volume = np.pi * r**2 * h
            unit = np.diag([(3 * r**2 + h**2) / 12, (3 * r**2 + h**2) / 12, r**2 / 2])
        else:
            r = shape.sphere.radius
            volume, unit = 4 / 3 * np.pi * r**3, 0.4 * r**2 * np.eye(3)
        parts.append((volume, origin[:3, 3], origin[:3, :3] @ unit @ origin[:3, :3].T))
    total = sum(volume for volume, _, _ in parts)
    center = sum(volume * position for volume, position, _ in parts) / total
    inertia = np.zeros((3, 3))
    for volume, position, unit in parts:
        d = position - center
        inertia += volume / total * (unit + d @ d * np.eye(3) - np.outer(d, d))
    return center, link.inertial.mass * inertia
