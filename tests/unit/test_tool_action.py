"""Tool actions: the Jacobian, the motion asked for, the way back, and calm at singular poses."""

import copy

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.load import load_contract, parse_contract
from rlinf_ros.contract.tool_action import InverseKinematics
from rlinf_ros.pipeline.action import ActionPipeline
from rlinf_ros.pipeline.inverse import smallest_singular_value, solve
from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.pipeline.rotations import (
    quat_angle,
    quat_from_rotvec,
    quat_multiply,
    quat_rotate,
)
from rlinf_ros.robot.description import load_robot
from rlinf_ros.runtime.control_loop import ControlLoop
from rlinf_ros.runtime.robot_io import ArmSample
from rlinf_ros.safety.reason import Code

from .test_contract import JOINTS, document
from .test_control_loop import GOAL, LinearPolicy

UR5E = load_robot("ur5e")
KINEMATICS = Kinematics.from_robot(UR5E)
H = np.pi / 2
SETTINGS = {"length_m": 0.2, "singular_below": 0.04, "damping": 0.04, "null_space_gain_hz": 0.0}
TERM = {
    "name": "tool",
    "type": "tool_pose_delta",
    "unit": "m, rad",
    "anchor": "measured",
    "frame": "base_link",
    "reference_point": "tool0",
    "joints": JOINTS,
    "scale": [0.01, 0.01, 0.01, 0.05, 0.05, 0.05],
    "inverse_kinematics": SETTINGS,
}
TWIST = {k: v for k, v in TERM.items() if k != "anchor"} | {
    "type": "tool_twist",
    "unit": "m/s, rad/s",
    "command_interface": "position",
    "scale": [0.5, 0.5, 0.5, 1.5, 1.5, 1.5],
}
# Elbow straight, wrist_2 at 0, wrist centre above the shoulder's axis.
SINGULAR = {
    "elbow": [0.3, -1.2, 0.0, -1.9, -1.4, 0.7],
    "wrist": [0.3, -1.2, 1.5, -1.9, 0.0, 0.7],
    "upright": [0.0, -H, 0.0, -H, 0.0, 0.0],
    "shoulder": None,  # found below
}


def shoulder_singular() -> np.ndarray:
    """The point where axes 5 and 6 meet is brought over the shoulder: x = 0 at pan 0."""

    def x_m(lift: float) -> float:
        q = np.array([0.0, lift, 2.2, -1.9, -1.4, 0.0])
        return float(KINEMATICS.forward_links(q)["wrist_2_link"][0][0])

    low, high = -3.5, -2.0
    assert x_m(low) < 0 < x_m(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if x_m(middle) > 0 else (middle, high)
    return np.array([0.0, low, 2.2, -1.9, -1.4, 0.0])


SINGULAR["shoulder"] = shoulder_singular()


def pipeline(term: dict, hold: str = "hold_last_position", **limits) -> ActionPipeline:
    doc = document()
    doc["action"]["terms"] = [copy.deepcopy(term)]
    doc["action"]["hold"] = hold
    doc["action"]["limits"] |= limits
    return ActionPipeline(parse_contract(yaml.safe_dump(doc)), UR5E)


def state(q, last=None) -> dict:
    q = np.asarray(q, dtype=float)
    return {"joint_position": q, "last_command": q if last is None else np.asarray(last, float)}


def moved(q, motion, frame="base_link"):
    """Pose that the tool must have after a motion (6,), worked out apart from the pipeline."""
    position, quat = KINEMATICS.forward_pose(np.asarray(q, dtype=float))
    linear, turn = motion[:3], quat_from_rotvec(motion[3:])
    if frame == "tool0":
        return position + quat_rotate(quat, linear), quat_multiply(quat, turn)
    if frame == "base":  # base_link turned by 180° about z
        linear, turn = linear * [-1, -1, 1], quat_from_rotvec(motion[3:] * [-1, -1, 1])
    return position + linear, quat_multiply(turn, quat)


def test_jacobian_equals_finite_differences_of_the_forward_kinematics():
    q = np.random.default_rng(0).uniform(-3, 3, (4, 5, 6))
    pose, jacobian = KINEMATICS.jacobian(q)
    assert jacobian.shape == (4, 5, 6, 6)
    np.testing.assert_array_equal(pose.position(), KINEMATICS.forward(q)[0])
    step = 1e-6
    for j, e in enumerate(step * np.eye(6)):
        p1, r1 = KINEMATICS.forward(q + e)
        p0, r0 = KINEMATICS.forward(q - e)
        np.testing.assert_allclose(jacobian[..., :3, j], (p1 - p0) / (2 * step), atol=1e-8)
        spin = (r1 - r0) / (2 * step) @ np.swapaxes(KINEMATICS.forward(q)[1], -1, -2)
        turn = np.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)
        np.testing.assert_allclose(jacobian[..., 3:, j], turn, atol=1e-8)
    single = KINEMATICS.jacobian(q[1, 2])[1]
    np.testing.assert_allclose(single, jacobian[1, 2], atol=1e-15)


@pytest.mark.parametrize("frame", ["base_link", "base", "tool0"])
@pytest.mark.parametrize("anchor", ["measured", "last_command"])
def test_the_tool_moves_as_asked_from_its_anchor(frame, anchor):
    act = pipeline(TERM | {"frame": frame, "anchor": anchor}, velocity_rad_s=3.0)
    q, last = UR5E.home, UR5E.home + 0.01
    action = np.array([0.9, -0.5, 0.7, 0.3, -0.4, 0.5])
    target = act.command(action.astype(np.float32), state(q, last))
    start = q if anchor == "measured" else last
    position, quat = moved(start, action * TERM["scale"], frame)
    p, x = KINEMATICS.forward_pose(target)
    np.testing.assert_allclose(p, position, atol=1e-6)
    assert quat_angle(x, quat) < 2e-6


def test_a_twist_moves_the_reference_point_for_one_step():
    act = pipeline(TWIST)
    action = np.array([0.4, -0.2, 0.6, 0.5, 0.0, -0.3])
    target = act.command(action.astype(np.float32), state(UR5E.home, UR5E.home))
    position, quat = moved(UR5E.home, action * TWIST["scale"] * 0.02)
    p, x = KINEMATICS.forward_pose(target)
    np.testing.assert_allclose(p, position, atol=1e-6)
    assert quat_angle(x, quat) < 2e-6
    # a turn alone leaves the tool's origin where it is
    turn = act.command(np.array([0, 0, 0, 1, 1, 0], np.float32), state(UR5E.home))
    np.testing.assert_allclose(
        KINEMATICS.forward(turn)[0], KINEMATICS.forward(UR5E.home)[0], atol=1e-6
    )


def test_a_twist_on_the_velocity_interface():
    act = pipeline(TWIST | {"command_interface": "velocity"}, hold="ramp_to_zero")
    action = np.array([0.1, -0.05, 0.1, 0.05, 0.0, -0.03])
    s = state(UR5E.home, np.zeros(6))
    speed = act._decode(action, s)
    twist = KINEMATICS.jacobian(UR5E.home)[1] @ speed
    np.testing.assert_allclose(twist, action * TWIST["scale"], atol=1e-12)
    np.testing.assert_allclose(act.encode(speed, s), action, atol=1e-12)
    assert act.rest_command(UR5E.home).tolist() == [0.0] * 6


@settings(max_examples=60, deadline=None)
@given(
    turn=arrays(float, 6, elements=st.floats(-0.4, 0.4)),
    action=arrays(float, 6, elements=st.floats(-1.0, 1.0)),
    term=st.sampled_from([TERM, TERM | {"frame": "tool0", "anchor": "last_command"}, TWIST]),
)
def test_there_and_back_away_from_singularities(turn, action, term):
    act = pipeline(term, velocity_rad_s=3.0)
    s = state(UR5E.home + turn)
    command = act._decode(0.3 * action, s)
    np.testing.assert_allclose(act.encode(command, s), 0.3 * action, atol=2e-5)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(SINGULAR)),
    off=arrays(float, 6, elements=st.sampled_from([0.0, 1e-12, -1e-9, 1e-6, -1e-4, 1e-2])),
    action=arrays(float, 6, elements=st.floats(-1e3, 1e3)),
    term=st.sampled_from([TERM | {"scale": [0.5] * 6}, TWIST | {"scale": [3.0] * 6}]),
)
def test_steps_stay_bounded_at_and_near_singular_poses(name, off, action, term):
    act = pipeline(term)
    q = np.asarray(SINGULAR[name]) + off
    target = act._decode(action, state(q))
    assert np.all(np.isfinite(target))
    assert np.max(np.abs(target - q)) <= 2.0 * 0.02 + 1e-12  # velocity_rad_s × control_dt_s
    assert np.all(np.isfinite(act.encode(target, state(q))))


@pytest.mark.parametrize("name", SINGULAR)
def test_those_poses_are_singular(name):
    jacobian = KINEMATICS.jacobian(np.asarray(SINGULAR[name]))[1]
    assert smallest_singular_value(jacobian, 0.2) < 2e-3


def test_a_singular_direction_is_damped_and_the_others_are_exact():
    settings_ = InverseKinematics(0.2, 0.04, 0.04, 0.0)
    q = np.asarray(SINGULAR["wrist"])
    jacobian = KINEMATICS.jacobian(q)[1]
    weight = np.array([1, 1, 1, 0.2, 0.2, 0.2])
    u, s, _ = np.linalg.svd(jacobian * weight[:, None])
    for k in range(6):
        made = jacobian @ solve(jacobian, u[:, k] / weight, settings_) * weight
        part = 1.0 if s[k] >= 0.04 else s[k] ** 2 / (s[k] ** 2 + 0.04**2 - s[k] ** 2)
        np.testing.assert_allclose(made, part * u[:, k], atol=1e-9)
    # the speed of the joints stays continuous where damping begins
    slow = [
        solve(np.diag([1, 1, 1, 5, 5, e / 0.2]), np.eye(6)[5], settings_)[5]
        for e in (0.04 * 0.999999, 0.04 * 1.000001)
    ]
    assert slow[0] == pytest.approx(slow[1], rel=1e-4)


def test_too_fast_a_motion_is_slowed_in_its_direction():
    act = pipeline(TWIST | {"scale": [20.0] * 6})
    action = np.array([1.0, -0.5, 0.25, 0.0, 0.0, 0.0])
    target = act.command(action.astype(np.float32), state(UR5E.home))
    assert np.max(np.abs(target - UR5E.home)) == pytest.approx(2.0 * 0.02, rel=1e-6)
    made = act.encode(target, state(UR5E.home))
    np.testing.assert_allclose(
        made / np.linalg.norm(made), action / np.linalg.norm(action), atol=3e-3
    )


def test_seven_joints_go_home_without_moving_the_tool():
    """Any full-rank 6×7 Jacobian has one free direction."""
    rng = np.random.default_rng(1)
    jacobian = rng.normal(size=(3, 6, 7))
    motion, pull = rng.normal(size=(3, 6)), rng.normal(size=(3, 7))
    plain = InverseKinematics(1.0, 1e-3, 1e-3, 0.0)
    without, with_pull = (solve(jacobian, motion, plain, free) for free in (None, pull))
    for joints in (without, with_pull):
        np.testing.assert_allclose((jacobian @ joints[..., None])[..., 0], motion, atol=1e-9)
    extra = with_pull - without
    assert np.all(np.einsum("ij,ij->i", extra, pull) > 1e-6)  # it goes where it is pulled


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        ({"anchor": None}, "anchor", "missing"),
        ({"anchor": "default"}, "anchor", "last_command"),
        ({"frame": None}, "frame", "missing"),
        ({"reference_point": None}, "reference_point", "missing"),
        ({"unit": "m"}, "unit", "m, rad"),
        ({"scale": 0.01}, "scale", "expected 6 numbers"),
        ({"type": "tool_twist", "unit": "m/s, rad/s"}, "command_interface", "missing"),
        ({"inverse_kinematics": {**SETTINGS, "damping": 0.0}}, "damping", "must be > 0"),
        ({"inverse_kinematics": {**SETTINGS, "gain": 1.0}}, "gain", "unknown key"),
    ],
)
def test_what_a_tool_action_must_say(change, where, says):
    term = {k: v for k, v in (TERM | change).items() if v is not None}
    with pytest.raises(ConfigError) as caught:
        pipeline(term)
    assert where in str(caught.value) and says in str(caught.value)


def test_a_tool_action_must_fit_the_robot_and_stand_alone():
    for change, says in (
        ({"frame": "world"}, "frame 'world' is not known"),
        ({"reference_point": "flange"}, "tool link 'flange' is not known"),
        ({"joints": JOINTS[:5]}, "no action term drives joint 'wrist_3_joint'"),
    ):
        with pytest.raises(ConfigError, match=says):
            pipeline(TERM | change)
    doc = document()
    arm = doc["action"]["terms"][0]
    doc["action"]["terms"] = [TERM | {"joints": JOINTS[:3]}, {**arm, "joints": JOINTS[3:]}]
    with pytest.raises(ConfigError, match="a tool action moves all joints"):
        parse_contract(yaml.safe_dump(doc))


def test_the_shipped_twist_contract_loads_and_prints_its_elements():
    contract = load_contract(UR5E.path.parent / "contracts" / "reach_twist.yaml")
    act = ActionPipeline(contract, UR5E)
    assert contract.action.elements == tuple(
        f"tool[{e}]" for e in ("x", "y", "z", "rx", "ry", "rz")
    )
    assert contract.observation.terms[-1].size == act.size == 6
    assert "tool0 along base_link, last_command" in act.table()


def test_the_control_loop_runs_a_tool_action_as_the_simulator_does():
    contract = load_contract(UR5E.path.parent / "contracts" / "reach_twist.yaml")
    loop = ControlLoop(contract, UR5E, LinearPolicy(contract))
    act = ActionPipeline(contract, UR5E)
    q, sent, seen = UR5E.home.copy(), None, None
    for step in range(20):
        frame = loop.tick(ArmSample(0.02 * step, q, np.zeros(6)), 0.02 * step, sent, GOAL).frame
        before = state(q, q if sent is None else sent)
        np.testing.assert_allclose(frame.targets, act.command(frame.raw_action, before), atol=1e-12)
        if seen is not None:
            np.testing.assert_allclose(frame.observation[-6:], act.encode(sent, seen), atol=1e-6)
        sent, seen = frame.targets, before
        q = q + 0.8 * (sent - q)
    assert np.max(np.abs(q - UR5E.home)) > 0.01


def test_case_22_a_tool_action_that_is_no_number_is_named():
    contract = load_contract(UR5E.path.parent / "contracts" / "reach_twist.yaml")
    bad = np.array([[0, 0, 0, np.nan, 0, 0]], dtype=np.float32)
    loop = ControlLoop(contract, UR5E, lambda observation: bad)
    reason = loop.tick(ArmSample(0.0, UR5E.home, np.zeros(6)), 0.0, None, GOAL).reason
    assert reason.code is Code.NON_FINITE and reason.joint == "tool[rx]"
