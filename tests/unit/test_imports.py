"""The arrows between rooms: at import, in a clean subprocess, and in every import statement."""

import ast
import json
import os
import subprocess
import sys
from importlib.util import resolve_name

import pytest

# Room -> the rooms below it, which it may import.
CORE = {
    "contract": [],
    "robot": ["contract"],
    "pipeline": ["contract", "robot"],
    "policy": ["contract", "robot", "pipeline"],
    "safety": ["contract", "robot", "pipeline"],
    "runtime": ["contract", "robot", "pipeline", "policy", "safety"],
}
ROOMS = {
    **CORE,
    "ros": [*CORE],
    "cli": [*CORE, "ros"],
    "training": ["contract", "robot", "pipeline", "policy"],
}
ROS = (
    "rclpy",
    "ament_index_python",
    "action_msgs",
    "builtin_interfaces",
    "rcl_interfaces",
    "std_srvs",
)
LAUNCH = ("launch", "launch_ros")
LEARNING = ("torch", "ray", "onnxscript", "tensorboard", "rlinf_ros_training")

# Every module of a room is imported; what comes with it is looked at.
PROBE = """
import importlib, json, pkgutil, sys
room = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(getattr(room, "__path__", []), room.__name__ + "."):
    importlib.import_module(found.name)
print(json.dumps(sorted(sys.modules)))
"""


def is_ros(name: str) -> bool:
    top = name.partition(".")[0]
    return top in ROS or top.endswith("_msgs")


def is_one_of(name: str, tops) -> bool:
    return name.partition(".")[0] in tops


def room_of(path) -> str:
    """Room of a file, given relative to the repository."""
    if path.parts[0] == "training":
        return "training"
    return path.parts[1].removesuffix(".py")


def imports_of(source: str, package: str):
    """(line, dotted name) of each import in a file of `package`: statements at any depth, relative
    ones resolved, and import_module("...")."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                module = resolve_name("." * node.level + module, package)
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def fault(room: str, name: str) -> str:
    """Why `room` may not import `name`; empty if it may."""
    if is_one_of(name, LAUNCH):
        return "only launch/ may import launch"
    if is_ros(name) and room != "ros":
        return "only rlinf_ros/ros may import ROS"
    if is_one_of(name, LEARNING) and room != "training":
        return "rlinf_ros knows nothing of training"
    if is_one_of(name, ["mujoco"]) and room not in ("robot", "runtime", "training"):
        return "the simulator belongs to robot (model), runtime (twin) and training"
    parts = name.split(".")
    if parts[0] == "rlinf_ros" and len(parts) > 1:
        other = parts[1]
        if other in ROOMS and other != room and other not in ROOMS[room]:
            return f"{room} may import {', '.join(ROOMS[room]) or 'no room'}"
    return ""


def source_files(repository):
    return sorted(p for top in ("rlinf_ros", "training") for p in (repository / top).rglob("*.py"))


def test_every_import_statement_follows_the_arrows(repository):
    faults, seen = [], 0
    for path in source_files(repository):
        inside = path.relative_to(repository)
        if inside.parts == ("rlinf_ros", "__init__.py"):
            continue
        package = ".".join(inside.parent.parts)
        for line, name in imports_of(path.read_text(encoding="utf-8"), package):
            seen += 1
            why = fault(room_of(inside), name)
            if why:
                faults.append(f"{inside}:{line}: {name}: {why}")
    assert seen > 50
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("room", "source", "bad"),
    [
        ("pipeline", "def f():\n    import torch", True),
        ("pipeline", "def f():\n    importlib.import_module('torch.nn')", True),
        ("pipeline", "from rlinf_ros import policy", True),
        ("pipeline", "from rlinf_ros.robot.urdf import load", False),
        ("robot", "from rlinf_ros.pipeline.limits import clip", True),
        ("robot", "from ..pipeline import limits", True),
        ("robot", "from .. import pipeline", True),
        ("robot", "from . import urdf", False),
        ("safety", "import rlinf_ros.policy.bundle", True),
        ("runtime", "if TYPE_CHECKING:\n    import rclpy.node", True),
        ("ros", "from sensor_msgs.msg import JointState", False),
        ("ros", "import rlinf_ros_training.cli", True),
        ("training", "from rlinf_ros.ros.messages import Reason", True),
        ("training", "import torch", False),
        ("policy", "import mujoco", True),
    ],
)
def test_the_scan_sees_bad_imports(room, source, bad):
    package = "training" if room == "training" else f"rlinf_ros.{room}"
    assert any(fault(room, name) for _, name in imports_of(source, package)) is bad


@pytest.mark.parametrize("room", [*CORE, "cli", "ros.messages"])
def test_importing_a_room_brings_nothing_from_above(room, repository):
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, f"rlinf_ros.{room}"],
        capture_output=True, text=True, timeout=120, cwd=repository, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    bad = [m for m in loaded if is_ros(m) or is_one_of(m, [*LEARNING, *LAUNCH, "mujoco"])]
    top = room.partition(".")[0]
    above = {name for name in ROOMS if name not in ROOMS[top] and name != top}
    bad += [m for m in loaded if m.startswith("rlinf_ros.") and m.split(".")[1] in above]
    assert not bad


@pytest.mark.parametrize("name", ["torch", "torch.nn", "ray", "rclpy", "sensor_msgs.msg"])
def test_the_unit_tests_can_not_import_it(name):
    if name.partition(".")[0] in sys.modules:
        pytest.skip(
            "already imported by other tests of this process; `make test-unit` runs this one"
        )
    with pytest.raises(ModuleNotFoundError, match="blocked in tests/unit"):
        __import__(name)
