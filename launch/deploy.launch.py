"""A policy on an arm: guard and policy, with the twin, or beside a driver, or starting the driver.

ros2 launch rlinf_ros deploy.launch.py bundle:=BUNDLE use_twin:=true
ros2 launch rlinf_ros deploy.launch.py bundle:=BUNDLE                       # a driver runs already
ros2 launch rlinf_ros deploy.launch.py bundle:=BUNDLE start_driver:=true robot_ip:=192.168.1.10
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
    Shutdown,
)
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import LifecycleNode, Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchContext, LaunchDescription

_SOURCE = Path(__file__).resolve().parents[1]
if (_SOURCE / "setup.py").is_file():  # started from a source tree
    sys.path.insert(0, str(_SOURCE))

from rlinf_ros.ros import processes  # noqa: E402
from rlinf_ros.runtime.twin.orders import DRIVER, JOINT_ORDERS  # noqa: E402

_COULD_NOT_START = 2  # exit code of our nodes for a bad parameter, file or start


def generate_launch_description() -> LaunchDescription:
    """The arguments, then guard and policy, and the arm that was asked for."""
    return LaunchDescription([*_arguments(), OpaqueFunction(function=_processes)])


def _arguments() -> list[DeclareLaunchArgument]:
    switch = ["true", "false"]
    return [
        DeclareLaunchArgument("bundle", description="Folder of the PolicyBundle to run."),
        DeclareLaunchArgument(
            "robot",
            default_value="ur5e",
            description="Robot: a folder name in robots/, or the path of a robot.yaml.",
        ),
        DeclareLaunchArgument(
            "driver",
            default_value="",
            description="Driver profile in robot.yaml: topics and controllers; "
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
            description="Namespace of guard, policy and twin. A driver must publish there too.",
        ),
        DeclareLaunchArgument(
            "command_interface",
            default_value="position",
            choices=["position", "velocity"],
            description="What the bundle's contract commands; selects the arm's controller.",
        ),
        DeclareLaunchArgument(
            "guard_config",
            default_value="",
            description="ROS parameter file with the guard's limits; empty: the robot's own.",
        ),
        DeclareLaunchArgument(
            "autostart",
            default_value="true",
            choices=switch,
            description="Configure and activate the policy; false: use `ros2 lifecycle set`.",
        ),
        DeclareLaunchArgument(
            "use_twin",
            default_value="false",
            choices=switch,
            description="Start the simulated arm. Not together with start_driver.",
        ),
        DeclareLaunchArgument(
            "joint_state_order",
            default_value="humble_13",
            choices=[*JOINT_ORDERS, DRIVER],
            description="With use_twin: order of the joints in joint_states.",
        ),
        DeclareLaunchArgument(
            "start_driver",
            default_value="false",
            choices=switch,
            description="Start ur_robot_driver too, with the guard's controller active.",
        ),
        DeclareLaunchArgument(
            "ur_type",
            default_value="",
            description="With start_driver: type of the UR arm; empty: the robot's name.",
        ),
        DeclareLaunchArgument(
            "robot_ip", default_value="", description="With start_driver: address of the arm."
        ),
        DeclareLaunchArgument(
            "use_mock_hardware",
            default_value="false",
            choices=switch,
            description="With start_driver: no arm, the driver echoes commands.",
        ),
        DeclareLaunchArgument(
            "headless_mode",
            default_value="false",
            choices=switch,
            description="With start_driver: run without the External Control program on the "
            "pendant; e-Series arms must be in remote control.",
        ),
        DeclareLaunchArgument(
            "launch_rviz",
            default_value="false",
            choices=switch,
            description="With start_driver: show the arm in RViz.",
        ),
        DeclareLaunchArgument(
            "log_level",
            default_value="info",
            choices=["debug", "info", "warn", "error"],
            description="Lowest severity that our nodes log.",
        ),
    ]


def _processes(context: LaunchContext) -> list[Any]:
    given = context.launch_configurations
    # typed: a name such as 2026_12 would be read as a number
    text = {
        name: ParameterValue(given[name], value_type=str)
        for name in ("robot", "driver", "tf_prefix", "bundle")
        if given[name]
    }
    common = {name: value for name, value in text.items() if name != "bundle"}
    guard_config = [given["guard_config"]] if given["guard_config"] else []
    guard = Node(
        **processes.node("guard_node"),
        name="guard_node",
        namespace=given["namespace"],
        parameters=[{**common, "command_interface": given["command_interface"]}, *guard_config],
        ros_arguments=["--log-level", given["log_level"]],
        output="screen",
        on_exit=_on_guard_end,
    )
    autostart = given["autostart"] == "true"
    policy = LifecycleNode(
        **processes.node("policy_node"),
        name="policy_node",
        namespace=given["namespace"],
        parameters=[{**text, "autostart": autostart}],
        ros_arguments=["--log-level", given["log_level"]],
        output="screen",
        on_exit=_on_policy_end,
    )
    return [*_arm(given), guard, policy]


def _on_guard_end(event: ProcessExited, context: LaunchContext) -> list[Any]:
    # not a second time: launch_ros takes two shutdowns for an error
    return [] if context.is_shutdown else [Shutdown(reason="guard_node ended")]


def _on_policy_end(event: ProcessExited, context: LaunchContext) -> list[Any]:
    """The guard outlives the policy, to hold the arm; only a policy that never ran ends all."""
    if context.is_shutdown:
        return []
    if event.returncode == _COULD_NOT_START:
        return [Shutdown(reason="policy_node could not start: its message is above")]
    return [LogInfo(msg="policy_node ended; guard_node holds the arm. Ctrl-C ends the rest.")]


def _arm(given: dict[str, str]) -> list[Any]:
    twin, driver = given["use_twin"] == "true", given["start_driver"] == "true"
    if twin and driver:
        raise RuntimeError("use_twin and start_driver exclude each other: choose one arm")
    if twin and given["command_interface"] != "position":
        raise RuntimeError("the twin takes positions only: command_interface:=position")
    if twin:
        names = ("robot", "driver", "tf_prefix", "namespace", "joint_state_order", "log_level")
        source = PythonLaunchDescriptionSource(str(Path(__file__).parent / "twin.launch.py"))
        arguments = [(name, given[name]) for name in names]
        return [IncludeLaunchDescription(source, launch_arguments=arguments)]
    return [_ur_driver(given)] if driver else []


def _ur_driver(given: dict[str, str]) -> IncludeLaunchDescription:
    from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

    mock = given["use_mock_hardware"]
    if not given["robot_ip"] and mock == "false":
        raise RuntimeError("start_driver needs robot_ip:=ADDRESS, or use_mock_hardware:=true")
    if given["namespace"]:
        raise RuntimeError(
            "ur_robot_driver's launch file starts in no namespace: start it yourself"
        )
    try:
        share = Path(get_package_share_directory("ur_robot_driver"))
    except PackageNotFoundError:
        raise RuntimeError(
            "start_driver needs ur_robot_driver: sudo apt install ros-$ROS_DISTRO-ur"
        ) from None
    arguments = {
        "ur_type": given["ur_type"] or given["robot"],
        "robot_ip": given["robot_ip"] or "0.0.0.0",  # noqa: S104 (mock hardware: never used)
        "tf_prefix": given["tf_prefix"],
        "use_mock_hardware": mock,
        "use_fake_hardware": mock,  # the name of the same on Humble
        "headless_mode": given["headless_mode"],
        "launch_rviz": given["launch_rviz"],
        "initial_joint_controller": f"forward_{given['command_interface']}_controller",
    }
    source = PythonLaunchDescriptionSource(str(share / "launch" / "ur_control.launch.py"))
    return IncludeLaunchDescription(source, launch_arguments=list(arguments.items()))
