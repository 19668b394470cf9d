"""Tool actions: from a twist or a pose delta to joint targets, and from what was sent back to it."""

from __future__ import annotations

import array_api_compat
import numpy as np

from ..contract.model import ActionTerm
from ..robot.description import RobotDescription
from .arrays import Array, like
from .inverse import slowed, solve
from .kinematics import Kinematics, ToolPose
from .rotations import matrix_to_quat, quat_from_rotvec, quat_to_matrix, quat_to_rotvec
from .terms import RawState


class ToolAction:
    """Executes a `tool_twist` or `tool_pose_delta` term; joint vectors in the robot's order.

    The six numbers are the linear motion of the reference point and a rotation vector, both along the
    axes of `frame`; for the tool's own frame, as it stands before the motion.
    """

    def __init__(
        self, term: ActionTerm, robot: RobotDescription, control_dt_s: float, velocity: np.ndarray
    ) -> None:
        """velocity: (J,) bound on each joint's speed, rad/s."""
        assert term.tool is not None
        self._motion = term.tool
        self._kinematics = Kinematics.from_robot(robot)
        self._in_tool = term.tool.frame == robot.frames.tool
        self._scale = np.array(term.scale)
        self._velocity, self._home, self._dt_s = velocity, robot.home, control_dt_s
        # of the command that one action unit makes: a twist becomes the displacement of one step
        self._span_s = control_dt_s if term.type == "tool_twist" else 1.0
        self._turn = np.eye(3)  # base ← frame
        if not self._in_tool:
            rest = np.zeros(len(robot.joint_names))
            base = self._kinematics.forward(rest)[1]
            self._turn = (
                base @ Kinematics.from_robot(robot, base=term.tool.frame).forward(rest)[1].T
            )

    def target(self, action: Array, state: RawState) -> Array:
        """Clipped action (..., 6) → joint target (..., J): rad, or rad/s on the velocity interface.

        Each joint's step is within its velocity bound; where one would not be, all are slowed alike.
        """
        motion = action * like(self._scale, action)
        if self._motion.interface == "velocity":
            return self._speed(motion, state["joint_position"])
        return self._displace(motion * self._span_s, self._anchor(state))

    def encode(self, command: Array, state: RawState) -> Array:
        """The action (..., 6) whose motion the joint command (..., J) really makes, by forward kinematics."""
        scale = like(self._scale, command)
        if self._motion.interface == "velocity":
            pose, jacobian = self._kinematics.jacobian(state["joint_position"])
            motion = (jacobian @ command[..., None])[..., 0]
            return self._from_base(motion, pose) / scale
        before = self._kinematics.pose(self._anchor(state))
        after = self._kinematics.pose(command)
        return self._from_base(_difference(after, before), before) / (scale * self._span_s)

    def _anchor(self, state: RawState) -> Array:
        measured = self._motion.anchor == "measured"
        return state["joint_position" if measured else "last_command"]

    def _speed(self, twist: Array, q: Array) -> Array:
        pose, jacobian = self._kinematics.jacobian(q)
        twist = self._to_base(twist, pose)
        speed = solve(jacobian, twist, self._motion.inverse, self._pull(q))
        return slowed(speed, like(self._velocity, speed))[0]

    def _displace(self, motion: Array, start: Array) -> Array:
        """Two Newton steps: the first alone would leave an error of the motion's square."""
        pose, jacobian = self._kinematics.jacobian(start)
        motion, inverse = self._to_base(motion, pose), self._motion.inverse
        free = self._pull(start)
        step = solve(jacobian, motion, inverse, None if free is None else free * self._dt_s)
        max_step = like(self._velocity, step) * self._dt_s
        step, factor = slowed(step, max_step)
        motion = motion * factor  # a motion too fast for a joint is made shorter, in its direction
        there, jacobian = self._kinematics.jacobian(start + step)
        rest = _remaining(motion, pose, there)
        return start + slowed(step + solve(jacobian, rest, inverse), max_step)[0]

    def _pull(self, q: Array) -> Array:
        """Velocity (..., J) of the free motion, None for an arm that has none."""
        gain = self._motion.inverse.null_space_gain_hz
        return gain * (like(self._home, q) - q) if len(self._home) > 6 and gain else None

    def _to_base(self, motion: Array, pose: ToolPose) -> Array:
        turn = pose.matrix() if self._in_tool else like(self._turn, motion)
        return _turned(motion, turn)

    def _from_base(self, motion: Array, pose: ToolPose) -> Array:
        turn = pose.matrix() if self._in_tool else like(self._turn, motion)
        return _turned(motion, array_api_compat.array_namespace(motion).matrix_transpose(turn))


def _turned(motion: Array, turn: Array) -> Array:
    """Both halves of motion (..., 6) turned by (..., 3, 3)."""
    xp = array_api_compat.array_namespace(motion)
    halves = (turn @ motion[..., :3, None])[..., 0], (turn @ motion[..., 3:, None])[..., 0]
    return xp.concat(halves, axis=-1)


def _difference(after: ToolPose, before: ToolPose) -> Array:
    """Motion (..., 6) in base from one pose to another: m, and the shorter rotation vector in rad."""
    linear, turn = after.position() - before.position(), after.matrix()
    xp = array_api_compat.array_namespace(linear)
    turn = turn @ xp.matrix_transpose(before.matrix())
    return xp.concat([linear, quat_to_rotvec(matrix_to_quat(turn))], axis=-1)


def _remaining(motion: Array, start: ToolPose, there: ToolPose) -> Array:
    """What is still missing of `motion` (..., 6) from `start` when the tool is `there`."""
    xp = array_api_compat.array_namespace(motion)
    linear = start.position() + motion[..., :3] - there.position()
    turn = quat_to_matrix(quat_from_rotvec(motion[..., 3:])) @ start.matrix()
    turn = turn @ xp.matrix_transpose(there.matrix())
    return xp.concat([linear, quat_to_rotvec(matrix_to_quat(turn))], axis=-1)
