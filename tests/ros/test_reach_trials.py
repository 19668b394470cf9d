"""reach_trials with twin, guard and policy: four processes, the whole ROS side of the line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 (rclpy) is not installed")
pytest.importorskip("rlinf_ros_msgs", reason="messages are not built: make ros-build")
pytest.importorskip("mujoco", reason="mujoco is not installed")
pytest.importorskip("onnx", reason="needs onnx to build a policy")

from rlinf_ros.pipeline.kinematics import Kinematics
from rlinf_ros.pipeline.observation import ObservationPipeline
from rlinf_ros.policy.bundle import PolicyBundle
from rlinf_ros.runtime.twin.orders import JOINT_ORDERS
from tests.ros.harness import DOMAIN, ROOT, UR5E, Process, servo_bundle

HOME = Kinematics.from_robot(UR5E).forward_pose(UR5E.home)


def write_goals(path: Path, *offsets_m: tuple[float, float, float]) -> Path:
    start = dict(zip(UR5E.joint_names, (UR5E.home + 0.05).tolist(), strict=True))
    goals = [
        {
            "position_m": (HOME[0] + offset).tolist(),
            "quat_xyzw": HOME[1].tolist(),
            "seed": seed,
            "start_rad": start,
        }
        for seed, offset in enumerate(offsets_m)
    ]
    path.write_text(json.dumps(goals))
    return path


def reach_trials(goals: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlinf_ros.ros.reach_trials", "--goals", goals, "--out", out]
    env = os.environ | {"ROS_DOMAIN_ID": str(DOMAIN), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    return subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env=env,
        timeout=150.0,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Twin, guard and policy in namespace /line; the folder of their bundle."""
    folder = tmp_path_factory.mktemp("line")
    bundle = servo_bundle(folder / "bundle")
    common = {"tf_prefix": "left_"}
    ros = "rlinf_ros.ros"
    processes = [
        Process(
            f"{ros}.twin_node",
            "line",
            folder / "twin.log",
            joint_state_order="humble_left",
            publish_rate_hz=250,
            **common,
        ),
        Process(f"{ros}.guard_node", "line", folder / "guard.log", **common),
        Process(
            f"{ros}.policy_node",
            "line",
            folder / "policy.log",
            bundle=bundle,
            autostart=True,
            autostart_timeout_s=60.0,
            **common,
        ),
    ]
    yield folder
    for process in processes:
        process.stop()
    for process in processes:
        print(f"--- {process.log.name}\n{process.text()}")


OPTIONS = ("--namespace", "line", "--tf-prefix", "left_", "--orientation-tolerance", "180")


def test_trials_are_run_judged_and_recorded(line: Path, tmp_path: Path) -> None:
    far = (0.0, 0.0, 0.55)  # out of reach: the policy fails, and that is a result
    goals = write_goals(tmp_path / "goals.json", (0.03, 0.02, 0.0), far)
    done = reach_trials(goals, tmp_path, *OPTIONS, "--duration", "2.0")
    assert done.returncode == 0, done.stdout
    assert "1 of 2 succeeded" in done.stdout

    report = json.loads((tmp_path / "trials.json").read_text())
    near, failed = report["trials"]
    assert near["success"] and near["position_error_m"] < 0.03
    assert not failed["success"] and failed["position_error_m"] > 0.03
    assert failed["said_success"] is False
    assert near["steps"] > 20
    assert report["command_latency_ms"]["p50"] > 0.0
    assert report["parity_max_abs"] <= 1e-6

    with np.load(tmp_path / "trials.npz", allow_pickle=False) as file:
        arrays = dict(file)
    names = arrays["joint_state_names"].tolist()
    assert names == ["left_" + name for name in JOINT_ORDERS["humble_left"]]
    # each observation follows from the arrays alone
    contract = PolicyBundle.load(line / "bundle").contract
    observe = ObservationPipeline(contract, UR5E)
    columns = [names.index("left_" + name) for name in UR5E.joint_names]
    state = {
        "joint_position": arrays["position"][:, columns],
        "joint_velocity": arrays["velocity"][:, columns],
        **{k: arrays[k] for k in ("last_command", "last_action")},
        **{k: arrays[k] for k in ("goal_position", "goal_quat_xyzw")},
    }
    again = observe.observe(observe.context(state))
    assert np.abs(again - arrays["observation"]).max() <= 1e-6
    assert np.ptp(arrays["observation"], axis=0).max() > 0.1  # the arm moved
    # the trial began at its start, and ended where the report says
    first, last = arrays["state_trial"] == 0, np.flatnonzero(arrays["state_trial"] == 0)[-1]
    start = arrays["state_position"][first][0][columns]
    assert start == pytest.approx(UR5E.home + 0.05, abs=5e-3)
    assert arrays["state_position_error_m"][last] == pytest.approx(near["position_error_m"])


def test_the_bundle_must_be_the_one_that_runs(line: Path, tmp_path: Path) -> None:
    goals = write_goals(tmp_path / "goals.json", (0.0, 0.0, 0.0))
    done = reach_trials(goals, tmp_path, *OPTIONS, "--bundle", str(tmp_path))
    assert done.returncode == 2
    assert "manifest.json" in done.stdout
    assert not (tmp_path / "trials.json").exists()


def test_missing_nodes_are_named_after_a_bounded_wait(tmp_path: Path) -> None:
    goals = write_goals(tmp_path / "goals.json", (0.0, 0.0, 0.0))
    done = reach_trials(goals, tmp_path, "--namespace", "nobody", "--wait", "2")
    assert done.returncode == 2
    for topic in ("joint_states", "guard/status", "policy/status"):
        assert f"/nobody/{topic}" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "trials.json").exists()


def test_bad_goals_are_an_error_before_any_wait(tmp_path: Path) -> None:
    (tmp_path / "goals.json").write_text('[{"position_m": [0, 0, 0], "seed": 1}]')
    done = reach_trials(tmp_path / "goals.json", tmp_path)
    assert done.returncode == 2
    assert "quat_xyzw: missing" in done.stdout
