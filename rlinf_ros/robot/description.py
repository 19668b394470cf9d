"""RobotDescription: what robot.yaml and its URDF say, checked against each other at load.

robot = load_robot("ur5e")
robot.joint_names, robot.lower, robot.velocity, robot.home      # all in controller order
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlinf_ros.contract.errors import ConfigError, nearest
from rlinf_ros.robot.urdf import UrdfJoint

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Joint:
    """One joint with its limits: rad, rad/s, rad/s², N·m."""

    name: str
    lower_rad: float
    upper_rad: float
    velocity_rad_s: float
    acceleration_rad_s2: float
    effort_nm: float


@dataclass(frozen=True)
class Frames:
    """Link names: `base` is where poses are given, `tool` the controlled point, `controller_base`
    the base frame that the arm's own controller and pendant use."""

    base: str
    tool: str
    controller_base: str


@dataclass(frozen=True)
class Payload:
    """What is mounted at the tool link and told to the arm's controller."""

    mass_kg: float
    center_m: tuple[float, float, float]


@dataclass(frozen=True)
class Driver:
    """The dialect of one driver generation.

    joint_state_order: the order in which this driver publishes joint states; for the twin and for
    tests, readers go by name. controllers: command interface (position, velocity, trajectory) →
    controller name. receive_timeout_s: silence after which the arm's own program stops it.
    """

    name: str
    joint_states_topic: str
    joint_state_order: tuple[str, ...]
    update_rate_hz: float
    receive_timeout_s: float
    controllers: Mapping[str, str]

    def command_topic(self, interface: str) -> str:
        """Topic of the controller for `position`, `velocity` or `trajectory` commands."""
        if interface not in self.controllers:
            raise ConfigError(
                f"no controller for '{interface}' commands",
                where=f"drivers.{self.name}.controllers",
                allowed=list(self.controllers),
            )
        last = "joint_trajectory" if interface == "trajectory" else "commands"
        return f"/{self.controllers[interface]}/{last}"


@dataclass(frozen=True)
class Safety:
    """Bounds that hold for every contract.

    max_command_step_rad: largest step between two controller cycles that the arm's own program
    follows. workspace_*: box in base_link that the tool link must stay in, m.
    """

    max_command_step_rad: float
    workspace_lower_m: tuple[float, float, float]
    workspace_upper_m: tuple[float, float, float]


@dataclass(frozen=True)
class JointServo:
    """Simulated servo of a joint: torque = kp (target - q) - kd q̇, N·m/rad, N·m·s/rad, kg·m²."""

    kp: float
    kd: float
    damping: float
    armature: float


@dataclass(frozen=True)
class Table:
    """Table under the arm: centre of its top and size x, y, thickness; m, in base_link."""

    top_center_m: tuple[float, float, float]
    size_m: tuple[float, float, float]


@dataclass(frozen=True)
class Simulation:
    """Figures of the simulated arm; servos in controller order."""

    sim_dt_s: float
    servos: tuple[JointServo, ...]
    table: Table


@dataclass(frozen=True)
class Visual:
    """A package with the arm's shapes, for pictures only, and the MJCF model inside it."""

    package: str
    model: str
    license: str


@dataclass(frozen=True, eq=False)
class RobotDescription:
    """A robot as its files describe it. Arrays are (J,) float64, read-only, in controller order."""

    name: str
    description: str
    joints: tuple[Joint, ...]
    home_rad: tuple[float, ...]
    frames: Frames
    payload: Payload
    drivers: Mapping[str, Driver]
    safety: Safety
    simulation: Simulation
    visual: Visual | None
    path: Path
    urdf_path: Path
    fingerprint: str  # sha256 over robot.yaml and URDF
    urdf_joints: Mapping[str, UrdfJoint] = field(repr=False)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def lower(self) -> Vector:
        """Lower position limits, rad."""
        return _vector(joint.lower_rad for joint in self.joints)

    @cached_property
    def upper(self) -> Vector:
        """Upper position limits, rad."""
        return _vector(joint.upper_rad for joint in self.joints)

    @cached_property
    def velocity(self) -> Vector:
        """Velocity limits, rad/s."""
        return _vector(joint.velocity_rad_s for joint in self.joints)

    @cached_property
    def acceleration(self) -> Vector:
        """Acceleration limits, rad/s²."""
        return _vector(joint.acceleration_rad_s2 for joint in self.joints)

    @cached_property
    def effort(self) -> Vector:
        """Torque limits, N·m."""
        return _vector(joint.effort_nm for joint in self.joints)

    @cached_property
    def home(self) -> Vector:
        """Home pose, rad."""
        return _vector(self.home_rad)

    def driver(self, profile: str) -> Driver:
        """The driver profile of that name."""
        if profile not in self.drivers:
            raise ConfigError(
                f"unknown driver profile '{profile}'",
                where=f"{self.path}:drivers",
                allowed=list(self.drivers),
                fix=nearest(profile, self.drivers),
            )
        return self.drivers[profile]


def load_robot(name_or_path: str | Path) -> RobotDescription:
    """Load a robot by name (`ur5e`) or by the path of a robot.yaml or its folder.

    A name is looked for in the folders of `RLINF_ROBOTS_PATH`, in robots/ beside the package (a
    source tree), and in share/rlinf_ros/robots of each ROS 2 prefix and of this Python.
    Raises ConfigError for an unknown name and for anything wrong in the files.
    """
    from rlinf_ros.robot.reading import read_robot  # yaml and URDF reading, used only here

    text = str(name_or_path)
    if isinstance(name_or_path, Path) or os.sep in text or text.endswith((".yaml", ".yml")):
        path = Path(text).expanduser()
        return read_robot(path / "robot.yaml" if path.is_dir() else path)
    known = known_robots()
    if text not in known:
        raise ConfigError(
            f"unknown robot '{text}'",
            where="robot",
            allowed=sorted(known) or "none found",
            fix=nearest(text, known) or "give its folder, or add its parent to RLINF_ROBOTS_PATH",
        )
    return read_robot(known[text])


def known_robots() -> dict[str, Path]:
    """Name → robot.yaml of each robot that `load_robot` finds by name."""
    found: dict[str, Path] = {}
    for folder in _folders():
        for path in sorted(folder.glob("*/robot.yaml")):
            found.setdefault(path.parent.name, path)
    return found


def _folders() -> list[Path]:
    given = [Path(p) for p in os.environ.get("RLINF_ROBOTS_PATH", "").split(os.pathsep) if p]
    prefixes = [p for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    shares = [Path(p) / "share" / "rlinf_ros" / "robots" for p in (*prefixes, sys.prefix)]
    return [*given, Path(__file__).resolve().parents[2] / "robots", *shares]


def _vector(values: Iterable[float]) -> Vector:
    array = np.array(list(values), dtype=np.float64)
    array.setflags(write=False)
    return array
