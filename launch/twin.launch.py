"""The simulated arm alone: publishes and listens like the arm's ROS 2 driver.

    ros2 launch rlinf_ros twin.launch.py robot:=ur5e joint_state_order:=alphabetical
"""

from __future__ import annotations

import sys
from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

_SOURCE = Path(__file__).resolve().parents[1]
if (_SOURCE / "setup.py").is_file():  # started from a source tree
    sys.path.insert(0, str(_SOURCE))

from rlinf_ros.ros import processes
from rlinf_ros.runtime.twin.orders import DRIVER, JOINT_ORDERS


def generate_launch_description() -> LaunchDescription:
    """Arguments and the twin's process; the launch ends when the process does."""
    text = ("robot", "driver", "tf_prefix", "joint_state_order")
    parameters = {name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in text}
    rate = LaunchConfiguration("publish_rate_hz")
    parameters["publish_rate_hz"] = ParameterValue(rate, value_type=float)
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "robot",
                default_value="ur5e",
                description="Robot: a folder name in robots/, or the path of a robot.yaml.",
            ),
            DeclareLaunchArgument(
                "driver",
                default_value="ur_humble",
                description="Driver profile in robot.yaml: names of topics and controllers.",
            ),
            DeclareLaunchArgument(
                "tf_prefix",
                default_value="",
                description="Prefix of joint and frame names, as given to the driver.",
            ),
            DeclareLaunchArgument(
                "namespace", default_value="", description="Namespace of all topics and services."
            ),
            DeclareLaunchArgument(
                "joint_state_order",
                default_value="humble_13",
                choices=[*JOINT_ORDERS, DRIVER],
                description="Order of the joints in joint_states; 'driver': the profile's own.",
            ),
            DeclareLaunchArgument(
                "publish_rate_hz",
                default_value="500.0",
                description="Control cycles and joint states per second; 125 for a CB3 arm.",
            ),
            DeclareLaunchArgument(
                "log_level",
                default_value="info",
                choices=["debug", "info", "warn", "error"],
                description="Lowest severity that is logged.",
            ),
            Node(
                **processes.node("twin_node"),
                name="twin_node",
                namespace=LaunchConfiguration("namespace"),
                parameters=[parameters],
                ros_arguments=["--log-level", LaunchConfiguration("log_level")],
                output="screen",
                on_exit=Shutdown(reason="twin_node ended"),
            ),
        ]
    )
