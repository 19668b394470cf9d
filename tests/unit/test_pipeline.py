"""The pipeline: elements by hand, joint orders, frames, histories, the way there and back."""

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.load import parse_contract
from rlinf_ros.pipeline.action import ActionPipeline
from rlinf_ros.pipeline.fit import check_fits
from rlinf_ros.pipeline.joints import JointError, JointReader
from rlinf_ros.pipeline.limits import limit_position
from rlinf_ros.pipeline.observation import ObservationPipeline
from rlinf_ros.robot.description import load_robot

from .test_contract import JOINTS, document

UR5E = load_robot("ur5e")
# The five orders of /joint_states seen in the field, and the controller's own.
ORDERS = {
    "alphabetical": (2, 1, 0, 3, 4, 5),
    "humble_13": (1, 2, 3, 4, 5, 0),
    "humble_14": (0, 4, 5, 3, 2, 1),
    "humble_left": (3, 4, 5, 0, 1, 2),
    "humble_right": (0, 1, 3, 5, 4, 2),
    "export": (0, 1, 2, 3, 4, 5),
}


def contract(observation=None, action=None, **rate):
    doc = document()
    if observation is not None:
        doc["observation"]["terms"] = observation
    if action is not None:
        doc["action"]["terms"] = action
    if action and action[0]["type"] == "joint_velocity":
        doc["action"]["hold"] = "ramp_to_zero"
    doc["rate"] |= rate
    return parse_contract(yaml.safe_dump(doc))


def state(q, **more):
    q = np.asarray(q, dtype=float)
    base = {
        "joint_position": q,
        "joint_velocity": q * 0.0,
        "last_command": q,
        "last_action": np.zeros_like(q),
        "goal_position": np.zeros((*q.shape[:-1], 3)),
        "goal_quat_xyzw": np.broadcast_to([0.0, 0.0, 0.0, 1.0], (*q.shape[:-1], 4)),
    }
    return base | {k: np.asarray(v, dtype=float) for k, v in more.items()}


def observe(pipeline, s):
    return pipeline.observe(pipeline.context(s))


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_case_01_same_observation_for_each_joint_order(order):
    names = [JOINTS[i] for i in order]
    values = [float(i + 1) for i in order]
    q = JointReader(UR5E.joint_names).read(names, values, "position")
    assert q.tolist() == [1, 2, 3, 4, 5, 6]


def test_case_02_a_message_that_lacks_a_joint_is_not_used():
    reader = JointReader(UR5E.joint_names)
    with pytest.raises(JointError, match="'elbow_joint' is missing"):
        reader.read([n for n in JOINTS if n != "elbow_joint"], [0.0] * 5, "position")
    with pytest.raises(JointError, match="'shoulder_pan_joint' is missing"):
        reader.read(["robotiq_85_left_knuckle_joint"], [0.3], "position")
    with pytest.raises(JointError, match="'elbow_joint' appears 2 times"):
        reader.read([*JOINTS, "elbow_joint"], [0.0] * 7, "position")
    with pytest.raises(JointError, match="velocity has 0 values for 6"):
        reader.read(JOINTS, [], "velocity")


def test_extra_joints_and_prefix_are_fine():
    names = ["robotiq_85_left_knuckle_joint", *(f"left_{n}" for n in JOINTS)]
    q = JointReader(UR5E.joint_names, prefix="left_").read(names, range(7), "position")
    assert q.tolist() == [1, 2, 3, 4, 5, 6]


def test_elements_by_hand():
    terms = [
        {
            "name": "wrist",
            "kind": "joint_position",
            "joints": ["wrist_2_joint", "elbow_joint"],
            "unit": "rad",
            "offset": [0.5, 0.1],
            "scale": [2.0, -3.0],
            "clip": [-4.0, 4.0],
        },
        {"name": "err", "kind": "joint_command_error", "joints": ["elbow_joint"], "unit": "rad"},
    ]
    pipeline = ObservationPipeline(contract(terms), UR5E)
    obs = observe(pipeline, state([1, 2, 3, 4, 5, 6], last_command=[0, 0, 3.25, 0, 0, 0]))
    # wrist_2: (5 - 0.5) * 2 = 9 → 4; elbow: (3 - 0.1) * -3 = -8.7 → -4; error: 3.25 - 3
    assert obs.dtype == np.float32 and obs.tolist() == [4.0, -4.0, 0.25]
    assert pipeline.element_names() == [
        "wrist[wrist_2_joint]",
        "wrist[elbow_joint]",
        "err[elbow_joint]",
    ]


@pytest.mark.parametrize("frame", ["base_link", "base"])
def test_case_09_tool_pose_in_the_declared_frame(frame):
    terms = [
        {"name": "p", "kind": "tcp_position", "frame": frame, "unit": "m"},
        {
            "name": "r",
            "kind": "tcp_orientation",
            "orientation": "quat_wxyz",
            "frame": frame,
            "unit": "1",
        },
    ]
    pipeline = ObservationPipeline(contract(terms), UR5E)
    obs = observe(pipeline, state([0.3, -1.2, 1.5, -1.9, -1.4, 0.7]))
    sign = 1.0 if frame == "base_link" else -1.0  # base = base_link turned by 180° about Z
    assert obs[:3] == pytest.approx([0.558621 * sign, 0.330054 * sign, 0.347516], abs=1e-6)
    x, y, z, w = -0.551497, 0.829678, 0.077740, 0.037971
    if frame == "base":  # Rz(π) q = (0,0,1,0) q in xyzw: (x,y,z,w) → (-y, x, w, -z)
        x, y, z, w = -y, x, w, -z
    expected = np.array([w, x, y, z]) * (1.0 if w >= 0 else -1.0)
    assert obs[3:] == pytest.approx(expected, abs=2e-6)


def test_goal_errors_are_zero_at_the_goal_and_turn_with_the_frame():
    terms = [
        {"name": "a", "kind": "goal_position_error", "frame": "base_link", "unit": "m"},
        {"name": "b", "kind": "goal_position_error", "frame": "tool0", "unit": "m"},
        {"name": "c", "kind": "goal_rotation_error", "frame": "base_link", "unit": "rad"},
    ]
    pipeline = ObservationPipeline(contract(terms), UR5E)
    q = UR5E.home
    p, quat = pipeline.kinematics.forward_pose(q)
    obs = observe(
        pipeline, state(q, goal_position=p + np.array([0.0, 0.0, 0.1]), goal_quat_xyzw=quat)
    )
    assert obs[:3] == pytest.approx([0, 0, 0.1], abs=1e-7)
    assert obs[3:6] == pytest.approx([0, 0, -0.1], abs=1e-6)  # at home the tool's Z points down
    assert obs[6:] == pytest.approx([0, 0, 0], abs=1e-6)


def test_history_is_filled_by_the_first_value_and_runs_oldest_first():
    term = {
        "name": "q",
        "kind": "joint_position",
        "joints": ["elbow_joint"],
        "unit": "rad",
        "history": 3,
    }
    pipeline = ObservationPipeline(contract([term]), UR5E)

    def push(*elbows, ids=None):
        s = state([[0, 0, e, 0, 0, 0] for e in elbows])
        return pipeline.observe(pipeline.context(s), ids).tolist()

    assert push(1, 10) == [[1, 1, 1], [10, 10, 10]]
    assert push(2, 20) == [[1, 1, 2], [10, 10, 20]]
    pipeline.reset(np.array([1]))
    assert push(50, ids=np.array([1])) == [[50, 50, 50]]
    assert push(3, 60) == [[1, 2, 3], [50, 50, 60]]
    pipeline.reset()
    assert push(4, 70) == [[4, 4, 4], [70, 70, 70]]


@pytest.mark.parametrize(
    ("type_", "extra", "expected"),
    [
        ("joint_position", {"offset": 0.0}, 0.05),
        ("joint_delta_from_measured", {}, 1.05),
        ("joint_delta_from_last_command", {}, 1.15),
        ("joint_offset_from_default", {"default_rad": [0.2] * 6}, 0.25),
    ],
)
def test_case_45_action_anchors(type_, extra, expected):
    term = {"name": "arm", "type": type_, "joints": JOINTS, "unit": "rad", "scale": 0.1, **extra}
    pipeline = ActionPipeline(contract(action=[term]), UR5E)
    s = state([1.0] * 6, last_command=[1.1] * 6)
    target = pipeline._decode(np.full(6, 0.5, np.float32), s)
    assert target == pytest.approx([expected] * 6)
    assert pipeline.encode(target, s) == pytest.approx([0.5] * 6)


def test_case_04_joint_lists_are_per_term():
    base = {"unit": "rad", "scale": 1.0, "offset": 0.0, "type": "joint_position"}
    terms = [
        {**base, "name": "wrist", "joints": ["wrist_3_joint", "wrist_1_joint", "wrist_2_joint"]},
        {
            **base,
            "name": "arm",
            "joints": ["elbow_joint", "shoulder_pan_joint", "shoulder_lift_joint"],
        },
    ]
    pipeline = ActionPipeline(contract(action=terms), UR5E)
    action = np.array([0.6, 0.4, 0.5, 0.3, 0.1, 0.2], np.float32)
    target = pipeline._decode(action, state([0.0] * 6))
    assert target == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert pipeline.encode(target, state([0.0] * 6)) == pytest.approx(action)


def test_velocity_is_bounded_and_turns_inward_at_a_limit():
    term = {
        "name": "arm",
        "type": "joint_velocity",
        "joints": JOINTS,
        "unit": "rad/s",
        "scale": 5.0,
    }
    pipeline = ActionPipeline(contract(action=[term]), UR5E)
    at_limit = UR5E.upper.copy()
    command = pipeline.command(np.ones(6, np.float32), state(at_limit, last_command=np.ones(6)))
    assert np.all(command <= 0.0)
    free = state(np.zeros(6), last_command=np.ones(6))
    # 5 rad/s² for one control step of 20 ms, then no further than the contract's 2 rad/s
    assert pipeline.command(np.ones(6, np.float32), free) == pytest.approx([1.1] * 6)
    fast = state(np.zeros(6), last_command=np.full(6, 1.95))
    assert pipeline.command(np.ones(6, np.float32), fast) == pytest.approx([2.0] * 6)
    assert pipeline.rest_command(at_limit).tolist() == [0.0] * 6


finite = st.floats(-50.0, 50.0, allow_nan=False)


@given(
    target=arrays(float, 6, elements=finite),
    last=arrays(float, 6, elements=st.floats(-3.0, 3.0)),
    measured=arrays(float, 6, elements=st.floats(-4.0, 4.0)),
    step=st.floats(1e-4, 0.2),
    tracking=st.floats(1e-3, 1.0),
)
def test_no_position_command_breaks_a_limit(target, last, measured, step, tracking):
    command = limit_position(
        target, last, measured, lower=-3.0, upper=3.0, max_step=step, max_tracking_error=tracking
    )
    assert np.all(np.abs(command) <= 3.0)
    assert np.all(np.abs(command - last) <= step + 1e-12)
    near = np.abs(last - measured) <= tracking  # tracking cannot be mended faster than by a step
    inside = np.abs(measured) <= 3.0
    assert np.all((np.abs(command - measured) <= tracking + 1e-12)[near & inside])


def test_case_21_limiter_counts_from_the_last_command_and_does_not_crawl():
    command = np.zeros(1)
    history = [np.zeros(1)] * 10
    for k in range(1, 101):
        measured = history[-10]  # the plant lags by ten commands
        command = limit_position(
            np.array([0.01 * k]), command, measured,
            lower=-3.0, upper=3.0, max_step=0.01, max_tracking_error=0.2,
        )  # fmt: skip
        history.append(command)
    assert command[0] == pytest.approx(1.0)


def test_contract_must_fit_the_robot():
    with pytest.raises(ConfigError, match="made for robot 'ur5e', this robot is 'ur5'"):
        check_fits(contract(), load_robot("ur5"))
    bad_joint = [{"name": "q", "kind": "joint_position", "joints": ["elbow"], "unit": "rad"}]
    with pytest.raises(ConfigError, match=r"terms\[0\].joints[\s\S]*did you mean 'elbow_joint'"):
        check_fits(contract(bad_joint), UR5E)
    bad_frame = [{"name": "p", "kind": "tcp_position", "frame": "world", "unit": "m"}]
    with pytest.raises(ConfigError, match="frame 'world' is not known"):
        check_fits(contract(bad_frame), UR5E)
    short = [{**document()["action"]["terms"][0], "joints": JOINTS[:5]}]
    with pytest.raises(ConfigError, match="no action term drives joint 'wrist_3_joint'"):
        check_fits(contract(action=short), UR5E)
