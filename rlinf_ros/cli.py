"""The command `rlinf-ros`: look at contracts and robots, verify bundles. Needs no ROS."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .contract.errors import ConfigError, RlinfError
from .contract.load import load_contract
from .contract.model import Contract
from .pipeline.action import ActionPipeline
from .pipeline.observation import ObservationPipeline, format_table
from .policy.bundle import PolicyBundle
from .policy.verify import TOLERANCE, verify
from .robot.description import RobotDescription, load_robot


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0 success, 1 a fault in what was given, 2 wrong usage."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except RlinfError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe (head, less) has gone
        sys.stderr.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rlinf-ros",
        description="Look at robots, contracts and policy bundles, and verify them.",
        epilog="Training has a command of its own: rlinf-train --help",
    )
    parser.add_argument("--version", action="version", version=f"rlinf-ros {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    describe = commands.add_parser(
        "describe",
        help="print a robot, a contract or a bundle as tables",
        description="Print what a robot, contract or bundle says: joints and limits, or each number of "
        "observation and action with its name, unit, frame and scale.",
    )
    describe.add_argument("what", help="robot name, robot.yaml, contract .yaml, or bundle folder")
    describe.add_argument(
        "--robot", help="robot name or path (default: the one the contract names)"
    )
    describe.set_defaults(run=_describe)

    check = commands.add_parser(
        "verify",
        help="re-run a bundle's golden samples on this machine",
        description="Check every byte of a bundle against its manifest, its contract against the robot, "
        "and re-run its golden samples through the pipeline and ONNX Runtime. Fails, naming the term, "
        "on any difference above the tolerance.",
    )
    check.add_argument("bundle", help="bundle folder")
    check.add_argument("--robot", help="robot name or path (default: the one the contract names)")
    check.add_argument(
        "--tolerance",
        type=_tolerance,
        default=TOLERANCE,
        help="largest absolute difference allowed (default: %(default)g)",
    )
    check.set_defaults(run=_verify)
    return parser


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1e-2:
        raise argparse.ArgumentTypeError(f"{text} is not in [0, 0.01]")
    return value


def _describe(arguments: argparse.Namespace) -> None:
    path = Path(arguments.what)
    if path.is_dir() and (path / "manifest.json").exists():
        bundle = PolicyBundle.load(path)
        created, run = bundle.manifest["created"], bundle.manifest["training"]
        print(f"bundle {bundle.manifest['name']}, created {created}")
        for key, value in {**bundle.manifest["versions"], **run}.items():
            print(f"  {key}: {value}")
        print()
        _print_contract(bundle.contract, arguments.robot)
    elif path.is_file() and path.name != "robot.yaml":
        _print_contract(load_contract(path), arguments.robot)
    elif path.is_dir() and not (path / "robot.yaml").exists():
        raise ConfigError(
            "this folder is neither a bundle (no manifest.json) nor a robot (no robot.yaml)",
            where=str(path),
        )
    else:
        _print_robot(load_robot(arguments.what))


def _print_contract(contract: Contract, robot_name: str | None) -> None:
    robot = load_robot(robot_name or contract.robot)
    observation, action = ObservationPipeline(contract, robot), ActionPipeline(contract, robot)
    print(f"contract {contract.name} for {contract.robot}, every {contract.control_dt_s:g} s")
    print(f"{contract.description}\n")
    print(f"observation: {observation.size} × float32, element = clip((raw - offset) * scale)")
    print(observation.table())
    limits = contract.action.limits
    print(
        f"\naction: {action.size} × float32 in ±{contract.action.clip:g} → joint "
        f"{contract.action.command_interface}, when silent: {contract.action.hold}"
    )
    print(action.table())
    print(
        f"\nlimits: target within {limits.tracking_error_rad:g} rad of the measured position and "
        f"{limits.position_margin_rad:g} rad inside the joint limits; change of target ≤ "
        f"{max(limits.velocity_rad_s):g} rad/s"
    )


def _print_robot(robot: RobotDescription) -> None:
    print(f"robot {robot.name}: {robot.description}\n{robot.path}\n")
    rows: list[tuple[str, ...]] = [
        ("joint", "lower rad", "upper rad", "rad/s", "rad/s²", "home rad")
    ]
    for i, name in enumerate(robot.joint_names):
        values = (robot.lower, robot.upper, robot.velocity, robot.acceleration, robot.home)
        rows.append((name, *(f"{v[i]:.4f}" for v in values)))
    print(format_table(rows))
    print(f"\nframes: base {robot.frames.base}, tool {robot.frames.tool}")
    print(f"drivers: {', '.join(robot.drivers)}")


def _verify(arguments: argparse.Namespace) -> None:
    bundle = PolicyBundle.load(arguments.bundle)
    robot = load_robot(arguments.robot or bundle.contract.robot)
    report = verify(bundle, robot, arguments.tolerance)
    print(f"{bundle.path}: verified on {report.samples} golden samples, robot {robot.name}")
    rows = [
        ("compared", "largest difference", "allowed"),
        (
            "raw state → observation",
            f"{report.observation_max_abs:.2e}",
            f"{arguments.tolerance:g}",
        ),
        ("observation → action", f"{report.action_max_abs:.2e}", f"{arguments.tolerance:g}"),
        ("action → joint command", f"{report.command_max_abs:.2e}", f"{arguments.tolerance:g}"),
    ]
    print(format_table(rows))


if __name__ == "__main__":
    sys.exit(main())
