"""Train a policy in simulation, as one process; the same as the command `rlinf-train run`.

ros2 launch rlinf_ros train.launch.py recipe:=reach overrides:="env.num_envs=128 runner.seed=3"
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited

from launch import LaunchContext, LaunchDescription

_SOURCE = Path(__file__).resolve().parents[1]
if (_SOURCE / "setup.py").is_file():  # started from a source tree
    sys.path.insert(0, str(_SOURCE))

from rlinf_ros.ros import processes  # noqa: E402

_SAVE_S = "60"  # a Ctrl-C saves a checkpoint first


def generate_launch_description() -> LaunchDescription:
    """The arguments, and the training process."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "recipe",
                default_value="reach",
                description="Recipe by name (`rlinf-train list`), or path/to/file.py:function.",
            ),
            DeclareLaunchArgument(
                "run", default_value="", description="Run folder; empty: runs/RECIPE."
            ),
            DeclareLaunchArgument(
                "resume",
                default_value="",
                description="Run folder to go on with; recipe, run and overrides are not used then.",
            ),
            DeclareLaunchArgument(
                "overrides",
                default_value="",
                description="Changes to the recipe: key=value, separated by spaces.",
            ),
            OpaqueFunction(function=_train),
        ]
    )


def _train(context: LaunchContext) -> list[ExecuteProcess]:
    given = context.launch_configurations
    arguments = [given["recipe"], *shlex.split(given["overrides"])]
    if given["run"]:
        arguments += ["--run", given["run"]]
    if given["resume"]:
        arguments = ["--resume", given["resume"]]
    return [
        ExecuteProcess(
            cmd=[*processes.command("rlinf-train"), "run", *arguments],
            name="rlinf-train",
            additional_env=processes.variables(),
            output="screen",
            sigterm_timeout=_SAVE_S,
            on_exit=_on_end,
        )
    ]


def _on_end(event: ProcessExited, context: LaunchContext) -> list[Shutdown]:
    # not a second time: launch_ros takes two shutdowns for an error
    return [] if context.is_shutdown else [Shutdown(reason="training ended")]
