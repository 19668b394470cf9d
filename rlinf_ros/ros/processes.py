"""How a launch file starts our processes: from an installed package or from the source tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

PACKAGE = "rlinf_ros"
_MODULES = {
    "policy_node": "rlinf_ros.ros.policy_node",
    "guard_node": "rlinf_ros.ros.guard_node",
    "twin_node": "rlinf_ros.ros.twin_node",
    "rlinf-train": "rlinf_ros_training.cli",
}


def installed_executable(name: str) -> Path | None:
    """The executable in lib/rlinf_ros of the ROS 2 prefix that holds the package, if any."""
    try:
        from ament_index_python.packages import PackageNotFoundError, get_package_prefix
    except ImportError:
        return None
    try:
        path = Path(get_package_prefix(PACKAGE)) / "lib" / PACKAGE / name
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None


def command(name: str) -> list[str]:
    """Command line of one of our executables, without arguments.

    The installed script runs under the Python that it was installed with. From a source tree the
    active virtual environment's Python is taken, for `ros2` itself runs under the system's.
    """
    if (path := installed_executable(name)) is not None:
        return [str(path)]
    python = sys.executable
    if environment := os.environ.get("VIRTUAL_ENV"):
        candidate = Path(environment) / "bin" / "python"
        python = str(candidate) if candidate.exists() else python
    return [python, "-m", _MODULES[name]]


def environment() -> dict[str, str]:
    """Variables to add so that the processes find what this one has found."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}


def node(name: str) -> dict[str, Any]:
    """Keyword arguments for launch_ros' Node: what to run, and with which variables."""
    executable, *arguments = command(name)
    return {
        "executable": executable,
        "arguments": arguments,
        "additional_env": environment(),
        "exec_name": name,
    }
