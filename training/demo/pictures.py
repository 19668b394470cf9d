"""The demo's pictures: learning curve, tracking errors, and a clip of the arm."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from rlinf_ros.robot.description import RobotDescription
from rlinf_ros_training.render import render_frames, save_animation
from rlinf_ros_training.run_log import read_metrics

from .trials import Trials

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_CLIP_TRIALS, _CLIP_STEPS, _CLIP_STRIDE, _CLIP_FPS = 4, 80, 4, 12.5  # 1.6 s each, in real time
_TOLERANCE_CM, _TOLERANCE_DEG = 3.0, 10.0


def draw_learning_curve(run: Path, path: Path) -> None:
    """Success in training and in evaluation, and return, over env steps."""
    rows = read_metrics(run)
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
    for axes, column, label in (
        (top, "success_rate", "training, randomised arm, exploring"),
        (bottom, "episode_return", "training"),
    ):
        points = [(r["env_steps"], r[column]) for r in rows if column in r]
        axes.plot(*np.array(points).T, color="C0", label=label)
    evaluated = [r for r in rows if "eval/success_rate" in r]
    if evaluated:
        steps = [r["env_steps"] for r in evaluated]
        rate = np.array([r["eval/success_rate"] for r in evaluated])
        low = rate - [r["eval/success_low"] for r in evaluated]
        high = [r["eval/success_high"] for r in evaluated] - rate
        errors = np.clip([low, high], 0.0, None)
        top.errorbar(steps, rate, errors, fmt="o", color="C1", label="held-out seeds, 95 %")
    top.set_ylabel("success rate")
    top.set_ylim(-0.03, 1.03)
    top.set_title("UR5e reach: position within 3 cm, orientation within 10°")
    bottom.set_ylabel("episode return")
    bottom.set_xlabel("env steps")
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
    top.legend(loc="upper left")
    _save(figure, path)


def draw_tracking(trials: Trials, path: Path) -> None:
    """Distance and angle to the goal over time, a line per trial, as measured from joint states."""
    rows = trials.rows
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
    for number, trial in enumerate(trials.summary["trials"]):
        mine = rows["state_trial"] == number
        seconds = (rows["state_stamp_ns"][mine] - rows["state_stamp_ns"][mine][0]) * 1e-9
        style = {"color": "C0" if trial["success"] else "C3", "alpha": 0.5, "linewidth": 1.0}
        top.plot(seconds, rows["state_position_error_m"][mine] * 100.0, **style)
        degrees = np.rad2deg(rows["state_orientation_error_rad"][mine])
        bottom.plot(seconds, degrees, **style)
    for axes, tolerance, label in (
        (top, _TOLERANCE_CM, "distance to goal (cm)"),
        (bottom, _TOLERANCE_DEG, "angle to goal (°)"),
    ):
        axes.axhline(tolerance, color="0.4", linestyle=":", linewidth=1)
        axes.set_yscale("log")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    top.set_title(f"{trials.count} goals over ROS 2; red: missed")
    bottom.set_xlabel("seconds since the goal was sent")
    _save(figure, path)


def make_clip(trials: Trials, robot: RobotDescription, path: Path) -> None:
    """The first trials as an animation, from the joint states that the policy node used."""
    state, keep = trials.state(), []
    for number in range(min(_CLIP_TRIALS, trials.count)):
        steps = np.flatnonzero(trials.rows["trial"] == number)[:_CLIP_STEPS:_CLIP_STRIDE]
        keep.append(steps)
    rows = np.concatenate(keep)
    frames = render_frames(
        robot,
        state["joint_position"][rows],
        state["goal_position"][rows],
        state["goal_quat_xyzw"][rows],
    )
    save_animation(path, frames, _CLIP_FPS)


def _save(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
