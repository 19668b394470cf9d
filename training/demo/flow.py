"""The demo from start to end; each step prints a line, and the last one a table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros.pipeline.observation import format_table
from rlinf_ros_training import train
from rlinf_ros_training.checkpoint import write_atomic
from rlinf_ros_training.envs.factory import make_env
from rlinf_ros_training.envs.mujoco_env import MujocoVecEnv

from .pictures import draw_learning_curve, draw_tracking, make_clip
from .ros import run_trials
from .trials import Trials, parity

SIM_EPISODES = 512
TRIAL_SEED = train.REPORT_SEED + 500_000  # goals that no training and no evaluation has seen
ROS_GOAL, ROS_MARGIN = 0.9, 0.05  # what the exit code asks for


def run_demo(out: Path, trials: int, overrides: Sequence[str]) -> int:
    """Train, export, run over ROS 2, report; the exit code, 0 only if all goals are met."""
    if trials < 20:
        raise RlinfError(f"{trials} trials are too few to tell a success rate: use 20 or more")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    print(f"1/5 training the recipe 'reach' ({out / 'run'})", flush=True)
    result = train.train("reach", out / "run", overrides)
    if result.reason == "stopped":
        print(f"stopped; go on with: rlinf-train run --resume {out / 'run'}")
        return 130

    print("2/5 evaluating on held-out seeds, exporting, verifying", flush=True)
    policy = train.load_policy(out / "run")
    evaluation = train.evaluate_policy(policy, SIM_EPISODES)
    bundle, _ = train.export_policy(policy, out / "bundle", evaluation)

    print(f"3/5 running the bundle over ROS 2: {trials} goals it never trained on", flush=True)
    env = make_env(policy.recipe.env, 1, training=False)
    goals = make_goals(env, trials)
    episode_s = env.max_episode_steps * env.control_dt_s
    run_trials(bundle.path, env.robot.name, goals, episode_s, out / "ros")
    recorded = Trials.load(out / "ros")

    print("4/5 comparing what the policy node saw with the simulator", flush=True)
    parity_max_abs = parity(recorded, policy.recipe.env)

    print("5/5 drawing", flush=True)
    draw_learning_curve(out / "run", out / "learning_curve.png")
    draw_tracking(recorded, out / "tracking.png")
    make_clip(recorded, env.robot, out / "reach.gif")

    report = {
        "train_seconds": round(policy.train_seconds, 2),
        "sim_success_rate": evaluation.rate,
        "ros_success_rate": recorded.success_rate,
        "trials": recorded.count,
        "parity_max_abs": parity_max_abs,
        "command_latency_ms": recorded.latency_ms,
        "sim_success_interval_95": list(evaluation.interval),
        "sim_episodes": evaluation.episodes,
        "env_steps": policy.env_steps,
    }
    write_atomic(out / "report.json", (json.dumps(report, indent=2) + "\n").encode())
    return _conclude(report, out)


def make_goals(env: MujocoVecEnv, count: int) -> list[dict[str, Any]]:
    """Starts and goals of held-out episodes; poses in base_link."""
    goals = []
    for seed in range(TRIAL_SEED, TRIAL_SEED + count):
        episode = env.task.sample(np.random.default_rng(seed), 1)
        start = dict(zip(env.robot.joint_names, episode.joint_position[0].tolist(), strict=True))
        goals.append(
            {
                "seed": seed,
                "start_rad": start,
                "position_m": episode.goal_position[0].tolist(),
                "quat_xyzw": episode.goal_quat_xyzw[0].tolist(),
            }
        )
    return goals


def _conclude(report: dict[str, Any], out: Path) -> int:
    latency = report["command_latency_ms"]
    checks = [
        ("success over ROS 2", f"{report['ros_success_rate']:.1%}", f"≥ {ROS_GOAL:.0%}",
         report["ros_success_rate"] >= ROS_GOAL),
        ("difference to simulation", f"{abs(report['ros_success_rate'] - report['sim_success_rate']):.1%}",
         f"≤ {ROS_MARGIN:.0%}",
         abs(report["ros_success_rate"] - report["sim_success_rate"]) <= ROS_MARGIN + 1e-9),
        ("observation parity", f"{report['parity_max_abs']:.1e}", "≤ 1e-06",
         report["parity_max_abs"] <= 1e-6),
    ]  # fmt: skip
    rows = [
        ("result", "value", "asked for", "met"),
        ("training", f"{report['train_seconds']:.0f} s, {report['env_steps']:,} env steps", "", ""),
        ("success in simulation", f"{report['sim_success_rate']:.1%}", "", ""),
        *((name, value, goal, "yes" if met else "NO") for name, value, goal, met in checks),
        ("joint state → command", f"{latency['p50']:.1f} ms (p99 {latency['p99']:.1f} ms)", "", ""),
    ]
    print(f"\n{format_table(rows)}\n")
    print(f"success: tool within 3 cm and 10° of the goal at the end; {report['trials']} goals")
    for name in ("report.json", "learning_curve.png", "tracking.png", "reach.gif", "bundle"):
        print(f"  {out / name}")
    return 0 if all(met for *_, met in checks) else 1
