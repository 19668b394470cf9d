"""A trained reach policy on the twin, run towards a list of goals; ends with a table.

ros2 launch rlinf_ros demo.launch.py bundle:=build/demo/bundle goals:=build/demo/ros/goals.json
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    IncludeLaunchDescription,
    OpaqueFunction,
    Shutdown,
)
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource

from launch import LaunchContext, LaunchDescription

_SOURCE = Path(__file__).resolve().parents[1]
if (_SOURCE / "setup.py").is_file():  # started from a source tree
    sys.path.insert(0, str(_SOURCE))

from rlinf_ros.ros import processes  # noqa: E402


def generate_launch_description() -> LaunchDescription:
    """The arguments, deploy.launch.py with the twin, and the client that runs the trials."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="Folder of the PolicyBundle to run."),
            DeclareLaunchArgument(
                "goals", description="JSON list of goals: position_m, quat_xyzw, seed."
            ),
            DeclareLaunchArgument(
                "out",
                default_value="build/trials",
                description="Folder for trials.json and trials.npz.",
            ),
            DeclareLaunchArgument(
                "robot",
                default_value="ur5e",
                description="Robot: a folder name in robots/, or the path of a robot.yaml.",
            ),
            DeclareLaunchArgument(
                "duration_s", default_value="3.0", description="Length of each run, s."
            ),
            OpaqueFunction(function=_demo),
        ]
    )


def _demo(context: LaunchContext) -> list[Any]:
    given = context.launch_configurations
    deploy = PythonLaunchDescriptionSource(str(Path(__file__).parent / "deploy.launch.py"))
    arguments = {"bundle": given["bundle"], "robot": given["robot"], "use_twin": "true"}
    options = {"goals": given["goals"], "out": given["out"], "robot": given["robot"]}
    options["duration"] = given["duration_s"]
    trials = [part for key, value in options.items() for part in (f"--{key}", value)]
    return [
        IncludeLaunchDescription(deploy, launch_arguments=list(arguments.items())),
        ExecuteProcess(
            cmd=[*processes.command("reach_trials"), *trials],
            name="reach_trials",
            additional_env=processes.variables(),
            output="screen",
            on_exit=_on_end,
        ),
    ]


def _on_end(event: ProcessExited, context: LaunchContext) -> list[Shutdown]:
    # not a second time: launch_ros takes two shutdowns for an error
    return [] if context.is_shutdown else [Shutdown(reason="the trials ended")]
