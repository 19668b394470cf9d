"""Our recipe `reach_position`: `python ours_reach.py SEED [key=value ...]` prints JSON."""

from __future__ import annotations

import json
import sys
import tempfile

from timing import EPISODES, GOAL_RATE, HELD_OUT_SEED

from rlinf_ros_training.config import apply_overrides
from rlinf_ros_training.envs.factory import make_env
from rlinf_ros_training.recipes.reach import reach_position
from rlinf_ros_training.run_log import read_metrics
from rlinf_ros_training.runner import Runner


def main(seed: int, overrides: list[str]) -> dict:
    recipe = apply_overrides(
        reach_position(),
        [
            f"runner.seed={seed}",
            f"runner.stop_at_success={GOAL_RATE}",
            f"eval.episodes={EPISODES}",
            f"eval.first_seed={HELD_OUT_SEED}",
            f"eval.num_envs={EPISODES}",
            *overrides,
        ],
    )
    with tempfile.TemporaryDirectory() as folder:
        result = Runner(recipe, folder, make_env, quiet=True).run()
        rows = [r for r in read_metrics(folder) if "eval/success_rate" in r]
    curve = [(r["train_seconds"], int(r["env_steps"]), r["eval/success_rate"]) for r in rows]
    return {
        "reached": result.reason == "success",
        "seconds": result.train_seconds,
        "env_steps": result.env_steps,
        "curve": curve,
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2:])))
