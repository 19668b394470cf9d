"""What pip and colcon get to see: versions, files, entry points, dependencies."""

import ast
import re
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import chain
from pathlib import Path

import pytest

import rlinf_ros
from rlinf_ros.contract.errors import RlinfError
from rlinf_ros.ros import messages
from rlinf_ros.safety.reason import Code

TOP_LEVEL = """.ci .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md benchmarks
    constraints.txt docs launch msgs package.xml pyproject.toml resource rlinf_ros robots setup.cfg
    setup.py tests training"""


def run_setup(repository, monkeypatch, *argv):
    """Keyword arguments that setup.py hands to setuptools."""
    seen = {}
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "argv", ["setup.py", *argv])
    monkeypatch.setattr("setuptools.setup", lambda **kwargs: seen.update(kwargs))
    runpy.run_path("setup.py")
    return seen


@pytest.fixture
def setup(repository, monkeypatch):
    return run_setup(repository, monkeypatch)


def test_versions_are_equal(setup, repository):
    versions = {
        "setup.py": setup["version"],
        "package.xml": ET.parse(repository / "package.xml").findtext("version"),
        "msgs/package.xml": ET.parse(repository / "msgs/package.xml").findtext("version"),
        "rlinf_ros.__version__": rlinf_ros.__version__,
    }
    assert len(set(versions.values())) == 1, versions
    assert f"\n## {rlinf_ros.__version__}" in (repository / "CHANGELOG.md").read_text()


def test_names_and_licences_agree(setup, repository):
    package = ET.parse(repository / "package.xml")
    assert package.findtext("name") == setup["name"] == "rlinf_ros"
    assert package.findtext("license") == setup["license"] == "Apache-2.0"
    assert (repository / "resource" / "rlinf_ros").is_file()
    project = re.search(r"project\((\w+)\)", (repository / "msgs/CMakeLists.txt").read_text())[1]
    assert ET.parse(repository / "msgs/package.xml").findtext("name") == project == "rlinf_ros_msgs"


def test_launch_and_robot_files_are_installed(setup, repository):
    installed = {
        (f"{folder}/{Path(name).name}", name)
        for folder, names in setup["data_files"]
        for name in names
    }
    wanted = {
        (f"share/rlinf_ros/{path.relative_to(repository)}", str(path.relative_to(repository)))
        for top in ("launch", "robots")
        for path in (repository / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted
    assert wanted <= installed
    assert ("share/rlinf_ros/package.xml", "package.xml") in installed
    assert (
        "share/ament_index/resource_index/packages/rlinf_ros",
        "resource/rlinf_ros",
    ) in installed


def test_an_editable_install_copies_no_robots(repository, monkeypatch):
    # A copy in the venv would hide later edits of robots/ in the checkout.
    assert run_setup(repository, monkeypatch, "editable_wheel")["data_files"] == []


def test_every_module_is_in_a_package(setup, repository):
    places = {"rlinf_ros_training": "training"}
    packages = {name.replace("rlinf_ros_training", places["rlinf_ros_training"], 1)
                for name in setup["packages"]}  # fmt: skip
    folders = {
        ".".join(path.relative_to(repository).parent.parts)
        for top in ("rlinf_ros", "training")
        for path in (repository / top).rglob("*.py")
    }
    assert setup["package_dir"] == places
    assert folders <= packages, "a folder with modules lacks its __init__.py"


def test_entry_points_exist(setup, repository):
    for entry in setup["entry_points"]["console_scripts"]:
        module, function = entry.split("=")[1].strip().split(":")
        path = repository / (module.replace(".", "/") + ".py").replace(
            "rlinf_ros_training", "training"
        )
        assert path.is_file(), entry
        defined = [
            n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)
        ]
        assert function in defined, entry


def test_what_a_robot_needs_holds_no_training(setup):
    needed = {re.split(r"[<>=\[ ]", item)[0] for item in setup["install_requires"]}
    assert needed == {"array-api-compat", "numpy", "onnxruntime", "pyyaml", "yourdfpy"}


def test_each_dependency_has_a_tested_version(setup, repository):
    lines = (repository / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0] for line in lines if line and not line.startswith("#")}
    wanted = [*setup["install_requires"], *chain(*setup["extras_require"].values())]
    names = {re.split(r"[<>=\[ ]", item)[0].lower() for item in wanted}
    assert names <= pinned, names - pinned


def test_package_xml_names_every_ros_package_in_use(repository):
    tree = ET.parse(repository / "package.xml")
    declared = {e.text for tag in ("depend", "exec_depend") for e in tree.iter(tag)}
    source = "".join(
        path.read_text(encoding="utf-8")
        for top in ("rlinf_ros/ros", "launch")
        for path in (repository / top).rglob("*.py")
    )
    used = set(re.findall(r"^\s*(?:from|import) (\w+)", source, re.M))
    ros = {
        name
        for name in used
        if name in ("ament_index_python", "launch", "launch_ros", "rclpy", "std_srvs")
        or name.endswith(("_msgs", "_interfaces"))
    }
    assert ros
    assert ros <= declared, ros - declared


def test_interfaces_are_built_and_named(repository):
    files = {
        p.stem: p.parent.name
        for k in ("msg", "srv", "action")
        for p in (repository / "msgs" / k).glob("*")
    }
    assert files == messages.INTERFACES
    cmake = (repository / "msgs/CMakeLists.txt").read_text()
    assert set(re.findall(r'"\w+/(\w+)\.\w+"', cmake)) == set(files)


def test_reason_codes_are_the_messages_constants(repository):
    text = (repository / "msgs/msg/Reason.msg").read_text()
    codes = re.findall(r"^uint16 ([A-Z_]+)=(\d+)", text, re.M)
    assert {name: int(number) for name, number in codes} == dict(Code.__members__)
    assert len(set(Code)) == len(codes)


def test_missing_messages_say_how_to_build_them():
    with pytest.raises(RlinfError) as caught:
        messages.PolicyAction  # noqa: B018
    for words in ("make ros-build", "--base-paths src src/rlinf_ros/msgs", "install/setup.bash"):
        assert words in str(caught.value)
    with pytest.raises(RlinfError, match=r"apt install ros-.*-ur-dashboard-msgs"):
        messages.require("ur_dashboard_msgs.msg")
    with pytest.raises(AttributeError):
        messages.PolicyActoin  # noqa: B018


def test_top_level_is_as_designed(repository):
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files"],
        capture_output=True, text=True, timeout=60, cwd=repository, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert {name.split("/")[0] for name in listed} == set(TOP_LEVEL.split())


def test_no_file_is_too_long(repository):
    listed = [p for top in ("rlinf_ros", "training", "launch", "tests", "benchmarks", ".ci")
              for p in (repository / top).rglob("*.py")]  # fmt: skip
    long = {
        str(p): n for p in listed if (n := len(p.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert not long
