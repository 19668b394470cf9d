"""Our messages, and the one place that says what to do when they are not built.

    from rlinf_ros.ros.messages import PolicyAction, Reason, RunPolicy

Names are looked up on first use, so importing this module needs no ROS. A missing package raises an
RlinfError with the command that builds or installs it, in place of an ImportError.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from rlinf_ros.contract.errors import RlinfError

# Interface -> kind, as in msgs/.
INTERFACES = {
    "GuardStatus": "msg",
    "PolicyAction": "msg",
    "PolicyObservation": "msg",
    "PolicyStatus": "msg",
    "Reason": "msg",
    "SentCommand": "msg",
    "InjectFault": "srv",
    "LoadBundle": "srv",
    "RunPolicy": "action",
}

BUILD_HELP = """\
  fix: build them, then load them into this shell
    repository: make ros-build && source build/ros/install/setup.bash
    workspace:  colcon build --base-paths src src/rlinf_ros/msgs && source install/setup.bash
  A plain `colcon build` leaves the messages out: it does not look below the root package."""


def __getattr__(name: str) -> Any:
    """`PolicyAction` and the others of INTERFACES, imported on first use."""
    if name not in INTERFACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(require(f"rlinf_ros_msgs.{INTERFACES[name]}"), name)


def require(module: str) -> ModuleType:
    """Import a ROS interface module, e.g. `ur_dashboard_msgs.msg`.

    Raises RlinfError if it can't be imported: for `rlinf_ros_msgs` with the build commands, for
    another package with the name of its Debian package.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        text = f"ROS messages {module} can't be imported: {error}\n"
        if package == "rlinf_ros_msgs":
            raise RlinfError(text + BUILD_HELP) from error
        debian = f"ros-$ROS_DISTRO-{package.replace('_', '-')}"
        raise RlinfError(
            f"{text}  fix: apt install {debian}, then source /opt/ros/$ROS_DISTRO/setup.bash"
        ) from error
