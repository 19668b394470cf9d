"""The launch files: read as source everywhere, run for real where launch_ros can be imported."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "launch").glob("*.launch.py"))
NAMES = [path.name.removesuffix(".launch.py") for path in FILES]
_ABSENT = [
    name
    for name in ("rclpy", "launch", "launch_ros", "mujoco")
    if importlib.util.find_spec(name) is None
]
real = pytest.mark.skipif(
    bool(_ABSENT),
    reason=f"not importable: {', '.join(_ABSENT)} (source a ROS 2, or put ros2/launch and "
    "ros2/launch_ros on PYTHONPATH)",
)


# ---- as source, without launch ------------------------------------------------------------------


def declarations(path: Path) -> dict[str, dict[str, ast.expr]]:
    """Name → keyword arguments of each DeclareLaunchArgument in a file."""
    found: dict[str, dict[str, ast.expr]] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "DeclareLaunchArgument":
            name = ast.literal_eval(node.args[0])
            assert name not in found, f"{path.name} declares '{name}' twice"
            found[name] = {keyword.arg or "": keyword.value for keyword in node.keywords}
    return found


def test_the_four_files_are_there() -> None:
    assert NAMES == ["demo", "deploy", "train", "twin"]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_each_argument_is_described_and_used(path: Path) -> None:
    source = path.read_text()
    compile(source, str(path), "exec")
    functions = {n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
    assert "generate_launch_description" in functions
    arguments = declarations(path)
    assert arguments
    for name, keywords in arguments.items():
        description = ast.literal_eval(keywords["description"])
        assert description.endswith(".") and len(description) > 15, name
        assert source.count(f'"{name}"') > 1, f"{name} is declared and never used"
        if "default_value" in keywords:
            default = ast.literal_eval(keywords["default_value"])
            assert isinstance(default, str)
            if default in ("true", "false"):
                assert "choices" in keywords, f"{name} takes anything"


def test_the_files_start_what_exists() -> None:
    from rlinf_ros.ros import processes

    started = set()
    for path in FILES:
        started |= set(re.findall(r'processes\.(?:node|command)\("([^"]+)"\)', path.read_text()))
    assert started == {"twin_node", "guard_node", "policy_node", "reach_trials", "rlinf-train"}
    for name in started:
        module = (
            processes._MODULES[name].replace(".", "/").replace("rlinf_ros_training", "training")
        )
        assert (ROOT / f"{module}.py").is_file()


# ---- for real -----------------------------------------------------------------------------------

RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import AnyLaunchDescriptionSource

path, *rest = sys.argv[1:]
service = LaunchService(noninteractive=True)
arguments = [tuple(item.split(":=", 1)) for item in rest]
source = AnyLaunchDescriptionSource(path)
include = IncludeLaunchDescription(source, launch_arguments=arguments)
service.include_launch_description(LaunchDescription([include]))
sys.exit(service.run())
"""


class Launch:
    """A launch file as `ros2 launch` runs it, as a process of its own."""

    def __init__(self, name: str, log: Path, **arguments: object) -> None:
        from tests.ros.harness import DOMAIN

        env = os.environ | {
            "ROS_DOMAIN_ID": str(DOMAIN),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_LOG_DIR": str(log.parent / "ros"),
            "PYTHONUNBUFFERED": "1",
        }
        command = [sys.executable, "-c", RUN, str(ROOT / "launch" / f"{name}.launch.py")]
        self.log = log
        with log.open("w") as file:
            self.popen = subprocess.Popen(
                [*command, *(f"{key}:={value}" for key, value in arguments.items())],
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=env,
                start_new_session=True,  # a Ctrl-C of the test run is ours to pass on
            )

    def text(self) -> str:
        return self.log.read_text()

    def pid(self, name: str) -> int:
        """Process id of a started process."""
        match = re.search(rf"\[{name}-\d+\]: process started with pid \[(\d+)\]", self.text())
        assert match, self.text()
        return int(match[1])

    def wait_for(self, text: str, timeout_s: float = 90.0) -> None:
        end = time.monotonic() + timeout_s
        while text not in self.text():
            assert time.monotonic() < end, f"no '{text}' in {timeout_s} s\n{self.text()}"
            assert self.popen.poll() is None, f"ended before '{text}'\n{self.text()}"
            time.sleep(0.05)

    def wait(self, timeout_s: float = 90.0) -> int:
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end in {timeout_s} s\n{self.text()}") from None

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self.popen.send_signal(signal.SIGINT)
        return self.wait(60.0)

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(30.0)
        with contextlib.suppress(ProcessLookupError):  # what a failed test has left of its session
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(10.0)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[type]:
    running: list[Launch] = []

    def start(name: str, **arguments: object) -> Launch:
        running.append(Launch(name, tmp_path / "log", **arguments))
        return running[-1]

    yield start
    for launch in running:
        launch.close()


@real
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_show_args_lists_what_is_declared(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from launch.launch_description_sources import get_launch_description_from_any_launch_file

    description = get_launch_description_from_any_launch_file(str(path))
    arguments = {argument.name: argument for argument in description.get_launch_arguments()}
    assert set(arguments) == set(declarations(path))
    for argument in arguments.values():
        assert argument.description not in ("", "no description given")
    if importlib.util.find_spec("ros2launch") is not None:
        from ros2launch.api.api import print_arguments_of_launch_file

        print_arguments_of_launch_file(launch_file_path=str(path))
        shown = capsys.readouterr().out
        assert all(f"'{name}':" in shown for name in arguments)
        assert "*" not in shown  # none is hidden behind a condition


@real
def test_twin_starts_publishes_and_leaves_no_orphan(start) -> None:
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import JointState

    from rlinf_ros.runtime.twin.orders import JOINT_ORDERS
    from tests.ros.harness import Client

    launch = start(
        "twin",
        namespace="left",
        tf_prefix="left_",
        joint_state_order="humble_left",
        publish_rate_hz=50,
    )
    client = Client("left")
    try:
        states = client.collect(JointState, "joint_states", qos_profile_sensor_data)
        client.wait_for(lambda: states, f"joint states\n{launch.text()}", 90.0)
        assert list(states[0].name) == [f"left_{n}" for n in JOINT_ORDERS["humble_left"]]
    finally:
        client.close()
    pid = launch.pid("twin_node")
    assert alive(pid)
    assert launch.interrupt() == 0, launch.text()
    assert not alive(pid)
    assert "process has finished cleanly" in launch.text()
    assert "Caught exception" not in launch.text()


@real
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("twin", {"joint_state_order": "sorted"}, "Valid options are"),
        ("deploy", {}, "bundle"),
        ("deploy", {"bundle": "b", "start_driver": "true"}, "needs robot_ip:=ADDRESS"),
        (
            "deploy",
            {"bundle": "b", "start_driver": "true", "use_twin": "true"},
            "exclude each other",
        ),
        (
            "deploy",
            {"bundle": "b", "use_twin": "true", "command_interface": "velocity"},
            "the twin takes positions only",
        ),
    ],
)
def test_bad_arguments_are_told_before_anything_starts(start, name, arguments, message) -> None:
    launch = start(name, **arguments)
    assert launch.wait() == 1
    assert message in launch.text()
    assert "process started" not in launch.text()


@real
def test_missing_driver_package_is_told(start) -> None:
    if importlib.util.find_spec("ament_index_python") is not None:
        from ament_index_python.packages import get_packages_with_prefixes

        if "ur_robot_driver" in get_packages_with_prefixes():
            pytest.skip("ur_robot_driver is installed")
    launch = start("deploy", bundle="b", start_driver="true", use_mock_hardware="true")
    assert launch.wait() == 1
    assert "apt install ros-$ROS_DISTRO-ur" in launch.text()


DRIVER = """
from launch import LaunchDescription
from launch.actions import LogInfo, OpaqueFunction, Shutdown

def show(context):
    given = context.launch_configurations
    return [LogInfo(msg=f"{name}={given[name]!r}") for name in sorted(given)] + [Shutdown()]

def generate_launch_description():
    return LaunchDescription([OpaqueFunction(function=show)])
"""


@real
@pytest.mark.parametrize("interface", ["position", "velocity"])
def test_the_driver_gets_its_arguments_and_the_guards_controller(
    start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interface: str
) -> None:
    """What ur_control.launch.py of Humble to Lyrical is given; a file that shows it is in its place."""
    share = tmp_path / "prefix" / "share"
    index = share / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / "ur_robot_driver").touch()
    (share / "ur_robot_driver" / "launch").mkdir(parents=True)
    (share / "ur_robot_driver" / "launch" / "ur_control.launch.py").write_text(DRIVER)
    prefixes = [str(tmp_path / "prefix"), os.environ.get("AMENT_PREFIX_PATH", "")]
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join(prefixes))
    launch = start(
        "deploy",
        bundle="b",
        start_driver="true",
        robot_ip="10.0.0.2",
        tf_prefix="left_",
        command_interface=interface,
    )
    launch.wait()
    for line in (
        f"initial_joint_controller='forward_{interface}_controller'",
        "robot_ip='10.0.0.2'",
        "tf_prefix='left_'",
        "ur_type='ur5e'",
        "use_mock_hardware='false'",
        "use_fake_hardware='false'",
    ):
        assert line in launch.text()


@real
def test_a_bundle_that_cannot_be_loaded_ends_the_launch(start) -> None:
    pytest.importorskip("rlinf_ros_msgs", reason="messages are not built: make ros-build")
    launch = start("deploy", bundle="2026_12", use_twin="true")  # YAML would read a number
    launch.wait()
    assert "2026_12: no such bundle folder" in launch.text()
    for name in ("twin_node", "guard_node", "policy_node"):
        assert not alive(launch.pid(name))


@real
def test_deploy_with_twin_runs_and_the_guard_outlives_the_policy(start, tmp_path: Path) -> None:
    pytest.importorskip("rlinf_ros_msgs", reason="messages are not built: make ros-build")
    pytest.importorskip("onnx", reason="needs onnx to build a policy")
    from lifecycle_msgs.msg import State
    from lifecycle_msgs.srv import GetState

    from rlinf_ros.ros.messages import GuardStatus, PolicyStatus
    from tests.ros.harness import LATCHED, Client, servo_bundle

    bundle = servo_bundle(tmp_path / "bundle")
    launch = start("deploy", bundle=bundle, use_twin="true", namespace="cell")
    client = Client("cell")
    try:
        statuses = client.collect(PolicyStatus, "policy/status")
        guards = client.collect(GuardStatus, "guard/status", LATCHED)
        client.wait_for(
            lambda: statuses and statuses[-1].state == PolicyStatus.IDLE,
            f"policy idle\n{launch.text()}",
            90.0,
        )
        state = client.call(GetState, "policy_node/get_state", GetState.Request()).current_state
        assert state.id == State.PRIMARY_STATE_ACTIVE  # what `ros2 lifecycle get` shows
        os.kill(launch.pid("policy_node"), signal.SIGKILL)
        launch.wait_for("policy_node ended; guard_node holds the arm")
        guards.clear()
        client.wait_for(lambda: guards, "the guard's status after the policy's death")
        assert launch.popen.poll() is None
    finally:
        client.close()
    pids = [launch.pid(name) for name in ("twin_node", "guard_node")]
    assert launch.interrupt() == 0, launch.text()
    assert not any(alive(pid) for pid in pids)


@real
def test_train_passes_recipe_and_overrides_on(start) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    launch = start("train", recipe="reach", overrides="ppo.no_such_key=1")
    launch.wait()
    assert "no_such_key" in launch.text()
    assert "Traceback" not in launch.text()
