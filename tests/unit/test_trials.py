"""Trials without ROS: reading goals, replaying observations, writing files."""

import json

import numpy as np
import pytest

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.load import load_contract, parse_contract
from rlinf_ros.robot.description import load_robot
from rlinf_ros.runtime.control_loop import ControlLoop
from rlinf_ros.runtime.goal import Goal
from rlinf_ros.runtime.robot_io import ArmSample
from rlinf_ros.runtime.trials.goals import TrialGoal, read_goals
from rlinf_ros.runtime.trials.record import TrialRecord
from rlinf_ros.runtime.trials.recording import (
    Action,
    Command,
    Observation,
    Recording,
    State,
    Trial,
)

UR5E = load_robot("ur5e")
CONTRACT = load_contract(UR5E.path.parent / "contracts" / "reach.yaml")
ORDER = [1, 2, 3, 4, 5, 0]
NAMES = tuple("left_" + UR5E.joint_names[i] for i in ORDER)
GOAL = TrialGoal(np.array([0.4, 0.1, 0.4]), np.array([0.6, 0.8, 0.0, 0.0]), 7, UR5E.home.copy())
START_NS = 1_800_000_000_123_456_789


def record(contract=CONTRACT, steps=25, late=(), lost_states=()):
    """What a recorder hears while the policy node's own ControlLoop acts at random.

    late: steps whose tick does not see the newest command yet, but the one before it.
    """
    rng = np.random.default_rng(3)
    loop = ControlLoop(contract, UR5E, lambda obs: rng.normal(size=(1, 6)).astype(np.float32))
    goal = Goal(GOAL.position, GOAL.quat_xyzw)
    recording, sent, q = Recording(), [], UR5E.home.copy()
    for step in range(steps):
        q = q + 0.01 * rng.normal(size=6)
        velocity = rng.normal(size=6)
        stamp = START_NS + 20_000_000 * step
        if step not in lost_states:
            recording.states.append(State(stamp, NAMES, q[ORDER], velocity[ORDER]))
        known = sent[:-1] if step in late else sent
        sample = ArmSample(stamp * 1e-9, q, velocity)  # float seconds, as in the node
        result = loop.tick(sample, stamp * 1e-9, known[-1] if known else None, goal)
        assert result.frame is not None, result.reason
        seen = round(result.frame.stamp_s * 1e9)
        recording.observations.append(Observation(seen, step + 1, result.frame.observation))
        recording.actions.append(Action(seen, step + 1))
        sent.append(result.frame.targets)
        recording.commands.append(Command(stamp + 2_500_000, step + 1, sent[-1]))
    return recording


def trial(recording, success=True, error=0.01):
    return Trial(GOAL, success, error, 0.1, 25, 0.5, "GOAL_REACHED", success, recording)


def test_replay_gives_the_observations_that_the_control_loop_made() -> None:
    assert TrialRecord(CONTRACT, UR5E, "left_").add(trial(record())) == 0.0


def test_replay_finds_a_command_that_arrived_late() -> None:
    recording = record(late=(4, 9, 10))
    assert TrialRecord(CONTRACT, UR5E, "left_").add(trial(recording)) == 0.0


def test_replay_with_history_and_late_commands() -> None:
    text = CONTRACT.text.replace(
        "- name: command_error", "- name: command_error\n      history: 3", 1
    )
    contract = parse_contract(text)
    recording = record(contract, late=(4, 9))
    assert TrialRecord(contract, UR5E, "left_").add(trial(recording)) == 0.0


@pytest.mark.parametrize("element", range(0, CONTRACT.observation.size, 5))
def test_replay_notices_a_wrong_observation(element: int) -> None:
    recording = record()
    recording.observations[11].data[element] += 1e-4
    worst = TrialRecord(CONTRACT, UR5E, "left_").add(trial(recording))
    assert worst == pytest.approx(1e-4, rel=0.01)


def test_replay_notices_positions_taken_in_the_wrong_order() -> None:
    recording = record()
    state = recording.states[11]
    recording.states[11] = state._replace(position=state.position[[1, 0, 2, 3, 4, 5]])
    assert TrialRecord(CONTRACT, UR5E, "left_").add(trial(recording)) > 0.1


def test_a_joint_state_that_was_missed_is_an_error() -> None:
    with pytest.raises(ConfigError, match="joint state of observation 6 was not recorded"):
        TrialRecord(CONTRACT, UR5E, "left_").add(trial(record(lost_states=(5,))))


def test_names_that_change_or_lack_are_an_error() -> None:
    recording = record()
    recording.states[3] = recording.states[3]._replace(names=NAMES[::-1])
    with pytest.raises(ConfigError, match="names changed"):
        TrialRecord(CONTRACT, UR5E, "left_").add(trial(recording))
    with pytest.raises(ConfigError, match="nothing was recorded"):
        TrialRecord(CONTRACT, UR5E, "left_").add(trial(Recording()))


def test_latency_is_matched_by_sequence() -> None:
    recording = Recording(
        actions=[Action(1_000_000_000, 4), Action(1_020_000_000, 5), Action(1_040_000_000, 6)],
        commands=[
            Command(1_002_000_000, 0, UR5E.home),  # the guard's own
            Command(1_003_000_000, 4, UR5E.home),
            Command(1_041_500_000, 6, UR5E.home),  # 5 was dropped
            Command(1_050_000_000, 9, UR5E.home),  # of another run
        ],
    )
    assert recording.latencies_ms() == pytest.approx([3.0, 1.5])


def test_files_hold_what_is_needed_to_recompute(tmp_path) -> None:
    trials = TrialRecord(CONTRACT, UR5E, "left_")
    trials.add(trial(record()))
    trials.add(trial(record(steps=10), success=False, error=float("nan")))
    trials.write(tmp_path / "new" / "folder")
    report = json.loads((tmp_path / "new" / "folder" / "trials.json").read_text())
    assert report["success_rate"] == 0.5
    assert report["command_latency_ms"] == {
        "p50": pytest.approx(2.5, abs=1e-3),
        "p99": pytest.approx(2.5, abs=1e-3),
        "count": 35,
    }
    assert [t["success"] for t in report["trials"]] == [True, False]
    assert report["trials"][1]["position_error_m"] is None  # JSON has no NaN
    with np.load(tmp_path / "new" / "folder" / "trials.npz", allow_pickle=False) as file:
        arrays = dict(file)
    assert arrays["joint_names"].tolist() == list(UR5E.joint_names)
    assert arrays["joint_state_names"].tolist() == list(NAMES)
    assert np.bincount(arrays["trial"]).tolist() == [25, 10]
    assert np.bincount(arrays["state_trial"]).tolist() == [25, 10]
    assert arrays["observation"].shape == (35, CONTRACT.observation.size)
    assert arrays["commanded"].tolist() == [False, *[True] * 24, False, *[True] * 9]
    columns = [NAMES.index("left_" + name) for name in UR5E.joint_names]
    loop = ControlLoop(CONTRACT, UR5E, lambda obs: obs)
    state = {
        "joint_position": arrays["position"][:, columns],
        "joint_velocity": arrays["velocity"][:, columns],
        **{k: arrays[k] for k in ("last_command", "last_action")},
        **{k: arrays[k] for k in ("goal_position", "goal_quat_xyzw")},
    }
    again = loop.observations.observe(loop.observations.context(state))
    assert np.abs(again - arrays["observation"]).max() <= 1e-6
    distance = arrays["state_position_error_m"]
    assert distance[0] == pytest.approx(loop.errors(
        ArmSample(0.0, state["joint_position"][0], None), Goal(GOAL.position, GOAL.quat_xyzw)
    )[0])  # fmt: skip


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    trials = TrialRecord(CONTRACT, UR5E, "left_")
    trials.add(trial(record()))
    trials.write(tmp_path)
    before = (tmp_path / "trials.npz").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        trials.write(tmp_path)
    assert (tmp_path / "trials.npz").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["trials.json", "trials.npz"]


def goal(**changes):
    return {"position_m": [0.4, 0.0, 0.3], "quat_xyzw": [1.0, 0.0, 0.0, 0.0], "seed": 1} | changes


def test_goals_are_read_with_start_by_name(tmp_path) -> None:
    start = {name: 0.1 * i for i, name in enumerate(reversed(UR5E.joint_names))}
    path = tmp_path / "goals.json"
    path.write_text(json.dumps([goal(), goal(start_rad=start)]))
    first, second = read_goals(path, UR5E)
    assert first.start.tolist() == UR5E.home.tolist()
    assert second.start == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not valid JSON"),
        ("[]", "non-empty list"),
        ("{}", "non-empty list"),
        (
            json.dumps([goal(quat_xyzw=[1.0, 1.0, 0.0, 0.0])]),
            r"\[0\].quat_xyzw: its length is 1.41",
        ),
        (
            json.dumps([goal(), goal(position_m=[0.4, 0.0])]),
            r"\[1\].position_m: expected 3 numbers",
        ),
        (json.dumps([goal(speed=1)]), "unknown key 'speed'"),
        (json.dumps([goal(start_rad={"elbow_joint": 0.0})]), "shoulder_pan_joint: missing"),
        (
            json.dumps([goal(start_rad=dict.fromkeys(UR5E.joint_names, 4.0))]),
            "start_rad.elbow_joint: 4.0 is out of range",
        ),
    ],
)
def test_bad_goals_are_told(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "goals.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_goals(path, UR5E)
