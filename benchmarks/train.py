"""Training speed, both sides in one run: `make bench-train`.

(a) env steps/s of our VecEnv over the raw physics rate of the same model, states and threads;
(b) wall-clock seconds to 90 % held-out success on the position-only reach: ours, Stable-Baselines3
    PPO in its best setting, and a single-file PPO on our VecEnv. Evaluation is not counted.
Writes out/train.json and out/train.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import _report as report
import numpy as np

PEERS = Path(__file__).parent / "peers"
sys.path.insert(0, str(PEERS))
from timing import GIVE_UP_S, make_env  # noqa: E402

SIDES = {  # name in the report: (script, arguments before the seed)
    "rlinf_ros": ("ours_reach.py", []),
    "single_file_ppo": ("single_file_ppo.py", []),
    "sb3_dummy16": ("sb3_reach.py", ["dummy16"]),
    "sb3_batch64": ("sb3_reach.py", ["batch64"]),
}


def physics_ratio(num_envs: int, threads: int, windows: int = 9, steps: int = 50) -> dict[str, Any]:
    """Replay each window's commands on the bare Batch from the same states; median of the ratios."""
    env = make_env(num_envs, threads)
    env.reset(0)
    rng = np.random.default_rng(0)
    ratios, rates = [], []
    for window in range(windows + 1):
        actions = rng.uniform(-1, 1, (steps, num_envs, env.action_dim)).astype(np.float32)
        state, commands = env.state_dict(), []
        start = time.perf_counter()
        for action in actions:
            env.step(action)
            commands.append(env.raw_state()["last_command"])
        ours = time.perf_counter() - start
        after = env.state_dict()
        env.load_state_dict(state)
        batch, ctrl = env._batch, env._ctrl
        start = time.perf_counter()
        for command in commands:
            ctrl[:] = command
            batch.step(nstep=env._substeps)
        raw = time.perf_counter() - start
        env.load_state_dict(after)
        if window:  # the first one warms up
            ratios.append(raw / ours)
            rates.append(steps * num_envs / ours)
    return {
        "num_envs": num_envs,
        "threads": threads,
        "env_steps_per_s": statistics.median(rates),
        "over_physics": statistics.median(ratios),
        "all": ratios,
    }


def peers_python() -> str:
    """The interpreter of a venv that holds the peers, made at the first call."""
    venv = Path(__file__).parents[1] / "build" / "peers"
    python = venv / "bin" / "python"
    ready = venv / "ready"
    if not ready.exists():
        print("installing the peers into build/peers ...", flush=True)
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", venv])
        root = Path(__file__).parents[1]
        pip = [python, "-m", "pip", "install", "-q", "-c", root / "constraints.txt"]
        subprocess.check_call([*pip, "-e", f"{root}[train]", "stable-baselines3==2.9.2"])
        ready.touch()
    return str(python)


def run_side(name: str, seed: int) -> dict[str, Any]:
    """One training run in a process of its own."""
    script, arguments = SIDES[name]
    python = peers_python() if name.startswith("sb3") else sys.executable
    argv = [python, str(PEERS / script), *arguments, str(seed)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=GIVE_UP_S * 5, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    reached = "" if result["reached"] else " (not reached)"
    print(
        f"{name:16s} seed {seed}: {result['seconds']:6.2f} s, {result['env_steps']:7d} env steps{reached}",
        flush=True,
    )
    return result


def plot(runs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Success rate over training seconds, a line per run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for i, (name, results) in enumerate(runs.items()):
        for k, result in enumerate(results):
            seconds, _, rate = zip(*result["curve"], strict=True)
            axes.plot(seconds, rate, color=f"C{i}", alpha=0.8, label=name if k == 0 else None)
    axes.axhline(0.9, color="0.6", linestyle=":", linewidth=1)
    axes.set_xlabel("training seconds (evaluation not counted)")
    axes.set_ylabel("held-out success rate")
    axes.set_title("UR5e reach, position within 3 cm at the episode's end")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs per side (default: 5)")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    arguments = parser.parse_args()
    physics = [physics_ratio(n, threads) for n in (128, 512) for threads in (1, 2)]
    for row in physics:
        print(
            f"VecEnv n={row['num_envs']:4d} threads={row['threads']}: {row['env_steps_per_s']:8.0f} "
            f"env steps/s, {row['over_physics']:.3f} of raw physics",
            flush=True,
        )
    # Seeds outside, sides inside: slow minutes of the machine hit all sides alike.
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in arguments.sides}
    for seed in range(arguments.seeds):
        for name in arguments.sides:
            runs[name].append(run_side(name, seed))
    medians = {k: statistics.median(r["seconds"] for r in v) for k, v in runs.items()}
    print("\nmedian seconds to 90 %: " + ", ".join(f"{k} {v:.2f}" for k, v in medians.items()))
    report.OUT.mkdir(exist_ok=True)
    plot(runs, report.OUT / "train.png")
    metrics = {
        "env_steps_over_physics": report.metric(
            max(r["over_physics"] for r in physics if r["threads"] == 2), 0.9, "higher"
        )
    }
    ours = medians.get("rlinf_ros")
    sb3 = [v for k, v in medians.items() if k.startswith("sb3")]
    if ours and sb3:
        metrics["speedup_over_sb3"] = report.metric(min(sb3) / ours, 4.0, "higher")
    if ours and "single_file_ppo" in medians:
        ratio = medians["single_file_ppo"] / ours
        metrics["speedup_over_single_file_ppo"] = report.metric(ratio, 1.5, "higher")
    report.write("train", metrics, {"physics": physics, "medians_s": medians, "runs": runs})


if __name__ == "__main__":
    main()
