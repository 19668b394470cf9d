"""The command `rlinf-train`: run, evaluate, export, demo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlinf_ros import __version__
from rlinf_ros.contract.errors import RlinfError
from rlinf_ros.pipeline.observation import format_table

from .config import apply_overrides, to_yaml
from .recipes.catalogue import RECIPES, find_recipe


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code: 0 success, 1 a fault in what was given, 2 usage, 130 stopped."""
    arguments = _parse(argv)
    try:
        code: int = arguments.run(arguments)
        return code
    except RlinfError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """argparse takes `key=value` only before the options; here they may stand behind them, too."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    overrides = [word for word in rest if "=" in word and not word.startswith("-")]
    if len(overrides) < len(rest) or (rest and not hasattr(arguments, "overrides")):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        arguments.overrides = [*arguments.overrides, *rest]
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rlinf-train",
        description="Train policies in simulation, evaluate them, export them for ROS 2.",
        epilog="Robots, contracts and bundles have a command of their own: rlinf-ros --help",
    )
    parser.add_argument("--version", action="version", version=f"rlinf-train {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="list recipes and tasks")
    listing.set_defaults(run=_list)

    show = commands.add_parser("show", help="print a recipe with all its values")
    _add_recipe(show)
    show.set_defaults(run=_show)

    run = commands.add_parser(
        "run",
        help="train a recipe",
        description="Train a recipe. Ctrl-C saves a checkpoint and ends; --resume goes on from it to "
        "the same result as without the pause.",
    )
    _add_recipe(run, optional=True)
    run.add_argument("--run", dest="folder", type=Path, help="run directory (default: runs/RECIPE)")
    run.add_argument(
        "--resume", type=Path, metavar="RUN", help="go on with the run in this directory"
    )
    run.set_defaults(run=_run)

    evaluate = commands.add_parser(
        "evaluate",
        help="success rate on held-out seeds",
        description="Deterministic evaluation of a run's best checkpoint on seeds that training never "
        "used, with a 95 %% confidence interval.",
    )
    evaluate.add_argument(
        "policy", metavar="RUN", type=Path, help="run directory or checkpoint file"
    )
    evaluate.add_argument("--episodes", type=_positive, default=512, help="default: %(default)s")
    evaluate.set_defaults(run=_evaluate)

    export = commands.add_parser(
        "export",
        help="write a PolicyBundle",
        description="Evaluate a run's best checkpoint, write it as a PolicyBundle and verify that.",
    )
    export.add_argument("policy", metavar="RUN", type=Path, help="run directory or checkpoint file")
    export.add_argument("bundle", type=Path, help="folder to write; an older bundle is replaced")
    export.add_argument(
        "--episodes", type=_positive, default=512, help="of the evaluation that the manifest tells"
    )
    export.set_defaults(run=_export)

    demo = commands.add_parser(
        "demo",
        help="train, export, run over ROS 2, report",
        description="Train the reach recipe, export it, run it over ROS 2 on a simulated UR5e, and "
        "write report.json, plots and a clip. Exit code 0 only if the policy succeeds there as well.",
    )
    demo.add_argument("--out", type=Path, default=Path("build/demo"), help="default: %(default)s")
    demo.add_argument(
        "--trials", type=_positive, default=24, help="goals over ROS 2 (default: %(default)s)"
    )
    demo.add_argument("overrides", nargs="*", metavar="key=value", help="changes to the recipe")
    demo.set_defaults(run=_demo)
    return parser


def _add_recipe(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    parser.add_argument(
        "recipe",
        nargs="?" if optional else None,
        help=f"{', '.join(RECIPES)}, or path/to/file.py:function",
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="such as ppo.learning_rate=1e-3"
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not ≥ 1")
    return value


def _list(arguments: argparse.Namespace) -> int:
    from .envs.tasks.task import BUILT_IN

    rows: list[tuple[str, ...]] = [("recipe", "task", "environments", "what")]
    for name, function in RECIPES.items():
        recipe, what = function(), (function.__doc__ or "").splitlines()[0]
        rows.append((name, recipe.env.task, str(recipe.env.num_envs), what))
    print(format_table(rows))
    print(f"\ntasks: {', '.join(BUILT_IN)}, or path/to/file.py:ClassName")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    print(to_yaml(apply_overrides(find_recipe(arguments.recipe), arguments.overrides)), end="")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from . import train  # torch and MuJoCo take seconds to import

    if arguments.resume is not None:
        given = [arguments.recipe] if arguments.recipe else []  # only key=value can stand there
        result = train.resume(arguments.resume, [*given, *arguments.overrides])
    elif arguments.recipe is None:
        raise RlinfError("give a recipe, or --resume RUN\n  recipes: " + ", ".join(RECIPES))
    else:
        name = arguments.recipe.rpartition(":")[2]
        folder = arguments.folder or Path("runs", name)
        result = train.train(arguments.recipe, folder, arguments.overrides)
    how = {"length": "reached its length", "success": "reached its success rate"}
    print(
        f"{how.get(result.reason, 'stopped')} after {result.env_steps:,} env steps, "
        f"{result.train_seconds:.1f} s of training; {result.checkpoint}"
    )
    if result.reason == "stopped":
        run = result.checkpoint.parent.parent
        print(f"go on with: rlinf-train run --resume {run}")
        return 130
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    from . import train

    policy = train.load_policy(arguments.policy)
    result = train.evaluate_policy(policy, arguments.episodes)
    low, high = result.interval
    print(f"{policy.checkpoint}: {result.episodes} held-out episodes")
    print(f"success {result.rate:.1%} (95 % confidence: {low:.1%} to {high:.1%})")
    for key, value in result.summary().items():
        if key.endswith(("_mean", "_p95")):
            print(f"{key} {value:.4f}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from . import train

    policy = train.load_policy(arguments.policy)
    evaluation = train.evaluate_policy(policy, arguments.episodes)
    bundle, report = train.export_policy(policy, arguments.bundle, evaluation)
    print(
        f"{bundle.path}: {bundle.contract.name}, success {evaluation.rate:.1%} on "
        f"{evaluation.episodes} held-out episodes; verified on {report.samples} golden samples "
        f"(observation within {report.observation_max_abs:.1e}, action {report.action_max_abs:.1e})"
    )
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from .demo.flow import run_demo

    return run_demo(arguments.out, arguments.trials, arguments.overrides)


if __name__ == "__main__":
    sys.exit(main())
