"""The simulated arm behind the twin's controllers: MuJoCo, stepped in whole control cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.robot.description import RobotDescription
from rlinf_ros.runtime.twin.controllers import (
    CommandError,
    ForwardController,
    TrajectoryController,
    TrajectoryPoint,
    Vector,
)

CONTROLLERS = ("position", "trajectory")  # command interfaces of robot.yaml that the twin has


class TwinArm:
    """An arm whose servos follow one of two controllers; both exclude each other, as on the driver.

    While no controller writes, the servos hold the position measured when the last one stopped.
    All vectors are (J,) float64 in the robot's joint order; time counts simulated seconds.
    """

    def __init__(
        self,
        robot: RobotDescription,
        cycle_s: float,
        *,
        prefix: str = "",
        report: Callable[[str], None] = print,
    ) -> None:
        """cycle_s: time of one control cycle. prefix: `tf_prefix` of trajectories' joint names.
        report: is told why a controller was deactivated. Raises ConfigError for a bad cycle_s."""
        import mujoco

        from rlinf_ros.robot.mujoco_model import build_model

        self.robot, self.cycle_s, self._report = robot, cycle_s, report
        self._model = build_model(robot)
        self._substeps = round(cycle_s / self._model.opt.timestep)
        if self._substeps < 1 or abs(self._substeps * self._model.opt.timestep - cycle_s) > 1e-9:
            raise ConfigError(
                f"a cycle of {cycle_s:g} s is not a whole number of simulation steps",
                where="parameter publish_rate_hz",
                allowed=f"1 / (n * {self._model.opt.timestep:g} s), n = 1, 2, 3, ...",
            )
        self._data = mujoco.MjData(self._model)
        self._step, self._kinematics = mujoco.mj_step, mujoco.mj_kinematics
        self._mat_to_quat, self._wxyz = mujoco.mju_mat2Quat, np.zeros(4)
        self._site = self._data.site(robot.frames.tool)
        # base_link (MuJoCo's world) in the frame that the arm's own controller reports poses in
        zero = np.zeros(len(robot.joint_names))
        p_world, r_world = Kinematics.from_robot(robot).forward(zero)
        base = robot.frames.controller_base
        p_base, r_base = Kinematics.from_robot(robot, base=base).forward(zero)
        self._r_base_world = r_base @ r_world.T
        self._p_base_world = p_base - self._r_base_world @ p_world
        self.forward = ForwardController(len(robot.joint_names))
        self.trajectory = TrajectoryController(robot.joint_names, prefix)
        self._hold = robot.home.copy()
        self.reset()

    def reset(self, joint_position: npt.ArrayLike | None = None) -> None:
        """At rest at `joint_position` (default: home); forward controller active, no command."""
        position = np.asarray(self.robot.home if joint_position is None else joint_position)
        self._check_position(position)
        for vector in (self._data.qvel, self._data.qacc_warmstart, self._data.actuator_force):
            vector[:] = 0.0
        self._data.time = 0.0
        self._data.qpos[:] = self._data.ctrl[:] = position
        self._kinematics(self._model, self._data)
        self.switch("position")

    def switch(self, interface: str) -> None:
        """Make the controller of `interface` (see CONTROLLERS, or `none`) the active one.

        The target becomes the measured position, so the switch moves nothing.
        """
        self.forward.deactivate()
        self.trajectory.deactivate()
        self._hold = self.joint_position
        if interface == "position":
            self.forward.activate()
        elif interface == "trajectory":
            self.trajectory.activate()

    def receive_trajectory(
        self, joint_names: Sequence[str], points: Sequence[TrajectoryPoint], start_in_s: float = 0.0
    ) -> None:
        """Give the trajectory controller a trajectory that starts in `start_in_s` (negative: began
        already). Raises CommandError if it is rejected."""
        now = self._data.time
        self.trajectory.receive(
            joint_names, points, start_s=now + start_in_s, now_s=now, current=self._data.ctrl.copy()
        )

    def step(self, cycles: int = 1) -> None:
        """Run control cycles: the active controller sets the target, then physics follows."""
        for _ in range(cycles):
            self._data.ctrl[:] = self._target()
            self._step(self._model, self._data, self._substeps)
        self._kinematics(self._model, self._data)  # mj_step leaves poses one step behind

    def _target(self) -> Vector:
        try:
            target = self.forward.update() if self.forward.active else None
        except CommandError as error:
            self.switch("none")
            self._report(f"{error}; forward position controller deactivated, the arm holds")
            return self._hold
        if self.trajectory.active:
            target = self.trajectory.update(self._data.time)
        return self._hold if target is None else target

    @property
    def joint_position(self) -> Vector:
        """Measured joint angles, rad."""
        return np.array(self._data.qpos)

    @property
    def joint_velocity(self) -> Vector:
        """Measured joint velocities, rad/s."""
        return np.array(self._data.qvel)

    @property
    def joint_torque(self) -> Vector:
        """Torques of the servos, N·m (a UR driver reports motor currents here)."""
        return np.array(self._data.actuator_force)

    @property
    def target(self) -> Vector:
        """Position target of the servos, rad."""
        return np.array(self._data.ctrl)

    @property
    def active_controller(self) -> str:
        """`position`, `trajectory` or `none`."""
        if self.forward.active:
            return "position"
        return "trajectory" if self.trajectory.active else "none"

    def tool_pose(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Tool position (3,) in m and orientation (4,) xyzw in the arm controller's base frame."""
        position = self._r_base_world @ self._site.xpos + self._p_base_world
        rotation = self._r_base_world @ self._site.xmat.reshape(3, 3)
        self._mat_to_quat(self._wxyz, rotation.ravel())
        return position, self._wxyz[[1, 2, 3, 0]]

    def _check_position(self, position: Vector) -> None:
        robot, where = self.robot, "parameter initial_position_rad"
        if position.shape != robot.home.shape:
            raise ConfigError(
                f"{position.size} values for {robot.home.size} joints",
                where=where,
                allowed=f"one value per joint, in the order {', '.join(robot.joint_names)}",
            )
        for joint, value in zip(robot.joints, position, strict=True):
            if not joint.lower_rad <= value <= joint.upper_rad:  # a NaN fails too
                raise ConfigError(
                    f"{value:g} rad is out of range for '{joint.name}'",
                    where=where,
                    allowed=f"[{joint.lower_rad:g}, {joint.upper_rad:g}]",
                )
