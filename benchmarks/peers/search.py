"""Random search for the best setting of one side: `python search.py SIDE [--minutes 6]`.

Draws settings, trains each with one seed, then repeats the ten best with further seeds and ranks
them by the median seconds to the goal. Every side gets the same budget and the same ranges.
Run it on an idle machine, a side at a time; Stable-Baselines3 needs the interpreter in build/peers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import timing

from rlinf_ros.contract.errors import RlinfError

OUT = Path(__file__).parents[1] / "out"
MOST_STEPS = 40_000  # ends a bad draw of ours, as --give-up does on the other sides
COMMON = {
    "num_envs": [32, 64, 128],
    "steps": [8, 16, 32],
    "epochs": [2, 3, 4, 5, 8],
    "minibatch_size": [64, 128, 256, 512],
    "gamma": [0.7, 0.8, 0.9, 0.95],
    "gae_lambda": [0.7, 0.8, 0.9, 0.95],
    "learning_rate": [7e-4, 1e-3, 2e-3, 3e-3, 5e-3],
    "clip": [0.2, 0.3],
    "target_kl": [0.02, 0.03, 0.05],
    "init_std": [0.4, 0.6, 1.0],
    "activation": ["tanh", "relu", "elu"],
}


def ours(seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """One run of our trainer."""
    from ours_reach import main

    per_update = s["num_envs"] * s["steps"]
    return main(
        seed,
        [
            f"env.num_envs={s['num_envs']}",
            f"runner.rollout_steps={s['steps']}",
            f"runner.total_env_steps={MOST_STEPS}",
            "runner.overlap=false",
            f"eval.interval={max(1, timing.CHECK_EVERY // per_update)}",
            f"model.init_std={s['init_std']}",
            f"model.activation={s['activation']}",
            f"ppo.clip_range={s['clip']}",
            *(
                f"ppo.{key}={s[key]}"
                for key in (
                    *("epochs", "minibatch_size", "gamma", "gae_lambda"),
                    *("learning_rate", "target_kl"),
                )
            ),
        ],
    )


def single_file_ppo(seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """One run of the single-file PPO."""
    from single_file_ppo import main

    names = {"steps": "num_steps"}
    return main(seed, [f"{names.get(key, key)}={value}" for key, value in s.items()])


def sb3(setting: str) -> Callable[[int, dict[str, Any]], dict[str, Any]]:
    """One run of Stable-Baselines3; its own target_kl stops the epochs early, so it is left out."""
    names = {
        "steps": "n_steps",
        "minibatch_size": "batch_size",
        "epochs": "n_epochs",
        "clip": "clip_range",
    }

    def run(seed: int, s: dict[str, Any]) -> dict[str, Any]:
        from sb3_reach import main

        overrides = [f"{names.get(k, k)}={v}" for k, v in s.items() if k != "target_kl"]
        return main(setting, seed, overrides)

    return run


# On SB3's own vector env an env costs the same wherever it stands: fewer, longer rollouts are tried too.
DUMMY = {"num_envs": [8, 16, 32, 64], "steps": [16, 32, 64, 128]}
SIDES = {
    "rlinf_ros": (ours, COMMON),
    "single_file_ppo": (single_file_ppo, COMMON),
    "sb3_batch": (sb3("batch"), COMMON),
    "sb3_dummy": (sb3("dummy"), {**COMMON, **DUMMY}),
}


def draws(ranges: dict[str, list[Any]], seed: int) -> Iterator[dict[str, Any]]:
    """Settings whose rollout holds whole minibatches and is not longer than two checks."""
    rng = np.random.default_rng(seed)
    while True:
        s = {key: values[rng.integers(len(values))] for key, values in ranges.items()}
        rollout = s["num_envs"] * s["steps"]
        if rollout % s["minibatch_size"] == 0 and 512 <= rollout <= 2 * timing.CHECK_EVERY:
            yield s


def main() -> None:
    """Search, print the ten best, write out/search_SIDE.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("--minutes", type=float, default=6.0, help="of drawing (default: 6)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    parser.add_argument("--give-up", type=float, default=8.0, help="seconds per run (default: 8)")
    arguments = parser.parse_args()
    run, ranges = SIDES[arguments.side]
    timing.GIVE_UP_S = arguments.give_up
    timing.EPISODES = 100  # an evaluation costs more than the training between two of them

    def seconds(seed: int, s: dict[str, Any]) -> float:
        try:
            result = run(seed, s)
        except (RlinfError, ValueError) as error:  # a diverged run is a lost draw
            print(f"  diverged: {error}", file=sys.stderr)
            return float("inf")
        return result["seconds"] if result["reached"] else float("inf")

    tried: list[tuple[list[float], dict[str, Any]]] = []
    end = time.monotonic() + 60 * arguments.minutes
    for s in draws(ranges, arguments.seed):
        if time.monotonic() > end:
            break
        tried.append(([seconds(0, s)], s))
    tried.sort(key=lambda entry: entry[0][0])
    best = tried[:10]
    for seed in range(1, 5):
        for times, s in best:
            times.append(seconds(seed, s))
        # the clearly worse half need not be run again
        best = sorted(best, key=lambda entry: statistics.median(entry[0]))[: max(4, 10 - 2 * seed)]
    print(f"{arguments.side}: {len(tried)} settings tried")
    for times, s in best:
        print(f"{statistics.median(times):6.2f} s {[round(t, 2) for t in times]} {json.dumps(s)}")
    OUT.mkdir(exist_ok=True)
    document = {"tried": len(tried), "best": [{"seconds": t, "setting": s} for t, s in best]}
    (OUT / f"search_{arguments.side}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
