"""How a launch file starts our processes: from an installed package or from the source tree."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

PACKAGE = "rlinf_ros"
_MODULES = {
    "policy_node": "rlinf_ros.ros.policy_node",
    "guard_node": "rlinf_ros.ros.guard_node",
    "twin_node": "rlinf_ros.ros.twin_node",
    "reach_trials": "rlinf_ros.ros.reach_trials",
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

    An installed script runs under the Python that it was installed with. Otherwise the module runs
    under the active virtual environment's Python, for `ros2` itself runs under the system's.
    """
    if (path := installed_executable(name)) is not None:
        return [str(path)]
    environment = os.environ.get("VIRTUAL_ENV")
    folder = Path(environment) / "bin" if environment else Path(sys.executable).parent
    if (script := shutil.which(name, path=str(folder))) is not None:
        return [script]
    python = folder / "python"
    return [str(python) if python.exists() else sys.executable, "-m", _MODULES[name]]


def variables() -> dict[str, str]:
    """Environment variables to add, so that the processes find the package that this one found."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def node(name: str) -> dict[str, Any]:
    """Keyword arguments for launch_ros' Node: what to run, and with which variables."""
    executable, *arguments = command(name)
    return {
        "executable": executable,
        "arguments": arguments,
        "additional_env": variables(),
        "exec_name": name,
        "sigterm_timeout": "10",  # s; a busy machine may need more than the 5 that are usual
    }
