"""Runs a reach policy over policy/run towards a list of goals, records, judges, writes.

    python -m rlinf_ros.ros.reach_trials --goals goals.json --out runs/trials

Success is judged here, from the joint states at the end of each run. Before a trial the twin is
brought to its start by the trajectory controller; with --keep-pose, or on hardware, it starts where
the arm is. Files: see rlinf_ros.runtime.trials.record. Exit code 0 if all trials ran, 2 if not.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlinf_ros.contract.errors import RlinfError
from rlinf_ros.policy.bundle import PolicyBundle
from rlinf_ros.robot.description import load_robot
from rlinf_ros.ros.trial_client import TrialClient, TrialError
from rlinf_ros.runtime.trials.goals import TrialGoal, read_goals
from rlinf_ros.runtime.trials.record import TrialRecord
from rlinf_ros.runtime.trials.recording import Trial


@dataclass(frozen=True)
class Options:
    """How each trial is run and judged."""

    duration_s: float
    position_tolerance_m: float
    orientation_tolerance_rad: float
    stop_on_success: bool
    keep_pose: bool
    wait_s: float


def run_trials(
    client: TrialClient,
    record: TrialRecord,
    goals: list[TrialGoal],
    options: Options,
    say: Callable[[str], None],
) -> None:
    """Run all trials into `record`. Raises TrialError with the reason if one can't be run."""
    say(f"{'trial':>7}  {'result':<8}{'position':>10}{'angle':>9}{'steps':>7}  reason")
    for number, goal in enumerate(goals, start=1):
        client.wait_ready(options.wait_s)
        if not options.keep_pose:
            client.move_to(goal.start, options.wait_s)
            client.wait_ready(options.wait_s)
        trial = _run_one(client, record, goal, options)
        parity = record.add(trial)
        say(
            f"{number:>3}/{len(goals):<3}  {'success' if trial.success else 'FAILED':<8}"
            f"{trial.position_error_m * 1e3:>7.1f} mm"
            f"{math.degrees(trial.orientation_error_rad):>8.2f}°{trial.steps:>7}  {trial.reason}"
            + (f"; observations differ by {parity:.1e}" if parity > 1e-6 else "")
        )


def _run_one(client: TrialClient, record: TrialRecord, goal: TrialGoal, options: Options) -> Trial:
    result, recording = client.run_goal(
        goal,
        duration_s=options.duration_s,
        position_tolerance_m=options.position_tolerance_m,
        orientation_tolerance_rad=options.orientation_tolerance_rad,
        stop_on_success=options.stop_on_success,
    )
    final = client.joint_position(recording.states[-1])
    distance, angle = (float(e[0]) for e in record.replay.errors(final[None], goal))
    return Trial(
        goal=goal,
        success=distance <= options.position_tolerance_m
        and angle <= options.orientation_tolerance_rad,
        position_error_m=distance,
        orientation_error_rad=angle,
        steps=int(result.steps),
        elapsed_s=float(result.elapsed_s),
        reason=result.reason.name,
        said_success=bool(result.success),
        recording=recording,
    )


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="reach_trials",
        description="Run a reach policy towards goals over ROS 2, record and judge each trial.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--goals", type=Path, required=True, help="JSON list: position_m, quat_xyzw, seed")
    add("--out", type=Path, required=True, help="folder for trials.json and trials.npz")
    add("--robot", default="ur5e", help="robot name or path of its robot.yaml")
    add("--tf-prefix", default="", help="prefix of joint and frame names")
    add("--namespace", default="", help="namespace of the arm's nodes")
    add("--driver", default="", help="driver profile; default: the robot's first")
    add("--bundle", type=Path, help="the bundle that runs; default: as policy/status says")
    add("--duration", type=float, default=3.0, help="length of a run, s")
    add("--position-tolerance", type=float, default=0.03, help="m")
    add("--orientation-tolerance", type=float, default=10.0, help="degrees; 180: any orientation")
    add("--stop-on-success", action="store_true", help="end a run when the goal is reached")
    add("--keep-pose", action="store_true", help="start each trial where the arm is")
    add("--wait", type=float, default=60.0, help="longest wait for nodes and for the start, s")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    args = _parse(argv)

    def say(line: str) -> None:
        print(line, flush=True)

    client = None
    try:
        robot = load_robot(args.robot)
        driver = robot.driver(args.driver or next(iter(robot.drivers)))
        goals = read_goals(args.goals, robot)
        options = Options(
            duration_s=args.duration,
            position_tolerance_m=args.position_tolerance,
            orientation_tolerance_rad=math.radians(args.orientation_tolerance),
            stop_on_success=args.stop_on_success,
            keep_pose=args.keep_pose,
            wait_s=args.wait,
        )
        client = TrialClient(robot, driver, args.tf_prefix, args.namespace)
        status = client.wait_ready(args.wait)
        bundle = PolicyBundle.load(args.bundle or Path(status.bundle))
        if bundle.contract.sha256 != status.contract_sha256:
            raise TrialError(
                f"policy_node runs contract '{status.contract_name}' with another text than "
                f"{bundle.path}: give --bundle the one that it runs ({status.bundle})"
            )
        record = TrialRecord(bundle.contract, robot, args.tf_prefix)
        run_trials(client, record, goals, options, say)
        record.write(args.out)
    except RlinfError as error:
        print(f"reach_trials: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("reach_trials: interrupted; nothing was written", file=sys.stderr)
        return 130
    finally:
        if client is not None:
            client.close()
    _conclude(record.report(), args.out, say)
    return 0


def _conclude(report: dict[str, Any], out: Path, say: Callable[[str], None]) -> None:
    latency, trials = report["command_latency_ms"], report["trials"]
    count = sum(trial["success"] for trial in trials)
    say(f"{count} of {len(trials)} succeeded ({report['success_rate']:.1%})")
    if latency["count"]:
        say(f"joint state to command: p50 {latency['p50']:.1f} ms, p99 {latency['p99']:.1f} ms")
    median = float(np.median([trial["position_error_m"] for trial in trials]))
    say(f"median position error {median * 1e3:.1f} mm")
    say(f"observations recomputed from the recording: within {report['parity_max_abs']:.1e}")
    say(f"{out / 'trials.json'}, {out / 'trials.npz'}")


if __name__ == "__main__":
    sys.exit(main())
