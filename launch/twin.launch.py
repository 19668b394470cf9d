"""The simulated arm alone: publishes and listens like the arm's ROS 2 driver.

ros2 launch rlinf_ros twin.launch.py robot:=ur5e joint_state_order:=alphabetical
"""

from __future__ import annotations

import sys
from pathlib import Path

from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchContext, LaunchDescription

_SOURCE = Path(__file__).resolve().parents[1]
if (_SOURCE / "setup.py").is_file():  # started from a source tree
    sys.path.insert(0, str(_SOURCE))

from rlinf_ros.ros import processes  # noqa: E402
from rlinf_ros.runtime.twin.orders import DRIVER, JOINT_ORDERS  # noqa: E402


def generate_launch_description() -> LaunchDescription:
    """The arguments, and the twin's process, whose end ends the launch."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "robot",
                default_value="ur5e",
                description="Robot: a folder name in robots/, or the path of a robot.yaml.",
            ),
            DeclareLaunchArgument(
                "driver",
                default_value="",
                description="Driver profile in robot.yaml: rate and controller names; "
                "empty: the first one.",
            ),
            DeclareLaunchArgument(
                "tf_prefix",
                default_value="",
                description="Prefix of joint and frame names, as given to the driver.",
            ),
            DeclareLaunchArgument(
                "namespace",
                default_value="",
                description="Namespace of all topics, services and nodes.",
            ),
            DeclareLaunchArgument(
                "joint_state_order",
                default_value="humble_13",
                choices=[*JOINT_ORDERS, DRIVER],
                description="Order of the joints in joint_states; driver: the profile's own.",
            ),
            DeclareLaunchArgument(
                "publish_rate_hz",
                default_value="",
                description="Control cycles and joint states per second; empty: the driver's rate.",
            ),
            DeclareLaunchArgument(
                "log_level",
                default_value="info",
                choices=["debug", "info", "warn", "error"],
                description="Lowest severity that is logged.",
            ),
            OpaqueFunction(function=_twin),
        ]
    )


def _twin(context: LaunchContext) -> list[Node]:
    given = context.launch_configurations
    names = ("robot", "driver", "tf_prefix", "joint_state_order")
    # typed: a name such as 2026_12 would be read as a number
    parameters: dict[str, object] = {
        name: ParameterValue(given[name], value_type=str) for name in names if given[name]
    }
    if given["publish_rate_hz"]:
        parameters["publish_rate_hz"] = float(given["publish_rate_hz"])
    return [
        Node(
            **processes.node("twin_node"),
            name="twin_node",
            namespace=given["namespace"],
            parameters=[parameters],
            ros_arguments=["--log-level", given["log_level"]],
            output="screen",
            on_exit=_on_end,
        )
    ]


def _on_end(event: ProcessExited, context: LaunchContext) -> list[Shutdown]:
    # not a second time: launch_ros takes two shutdowns for an error
    return [] if context.is_shutdown else [Shutdown(reason="twin_node ended")]
