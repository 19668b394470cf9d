"""What the tests of ROS nodes share: processes by pid, waiting with a reason, a stand-in arm, a bundle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from rlinf_ros.robot.description import load_robot

ROOT = Path(__file__).resolve().parents[2]
UR5E = load_robot("ur5e")
# Apart from other test runs on this machine; 101 is the highest that needs no port settings.
DOMAIN = 20 + os.getpid() % 80
LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
COMMANDS = "forward_position_controller/commands"


def namespace(request: Any) -> str:
    """A namespace of its own for a test (pytest's `request` fixture)."""
    words = "".join(c if c.isalnum() else " " for c in request.node.name).split()
    return "_".join(words)[:80]


class Process:
    """A node as an OS process of its own, in a namespace, its output in a file."""

    def __init__(self, module: str, namespace: str, log: Path, **parameters: Any) -> None:
        arguments = ["-r", f"__ns:=/{namespace}"]
        for name, value in parameters.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments += ["-p", f"{name}:={text}"]
        env = os.environ | {
            "ROS_DOMAIN_ID": str(DOMAIN),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        self.log = log
        with log.open("a") as file:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", module, "--ros-args", *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=env,
            )

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def text(self) -> str:
        """All that the process has printed."""
        return self.log.read_text()

    def signal(self, number: int) -> None:
        """Send a signal to this process only."""
        self.popen.send_signal(number)

    def wait(self, timeout_s: float = 5.0) -> int:
        """Exit code; AssertionError with the log if it does not end in time."""
        try:
            return self.popen.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {timeout_s} s\n{self.text()}") from None

    def stop(self) -> None:
        """End it, by force if it does not listen."""
        if self.alive:
            self.signal(signal.SIGTERM)
            try:
                self.popen.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait(timeout=5.0)


class Client:
    """A node of the test, spun by a thread; `wait_for` is how a test waits for anything."""

    def __init__(self, namespace: str, name: str = "test_client") -> None:
        os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        self.context = Context()
        rclpy.init(context=self.context, domain_id=DOMAIN)
        self.node = Node(name, namespace=namespace, context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def collect(self, message_type: type, topic: str, qos: Any = 100) -> list[Any]:
        """A list that grows with each message on a topic."""
        messages: list[Any] = []
        self.node.create_subscription(message_type, topic, messages.append, qos)
        return messages

    def wait_for(
        self,
        condition: Callable[[], Any],
        what: str,
        timeout_s: float = 30.0,
        processes: Sequence[Process] = (),
    ) -> Any:
        """The condition's first true value; after the time-out, an error with the logs."""
        end = time.monotonic() + timeout_s
        while True:
            if value := condition():
                return value
            if time.monotonic() > end:
                logs = "\n".join(f"--- {p.log.name}\n{p.text()}" for p in processes)
                raise AssertionError(f"after {timeout_s:g} s still not: {what}\n{logs}")
            time.sleep(0.005)

    def call(self, service_type: type, name: str, request: Any, timeout_s: float = 30.0) -> Any:
        """Response of a service."""
        client = self.node.create_client(service_type, name)
        try:
            self.wait_for(client.service_is_ready, f"service {name}", timeout_s)
            return self.result(client.call_async(request), f"response of {name}", timeout_s)
        finally:
            self.node.destroy_client(client)

    def result(self, future: Any, what: str, timeout_s: float = 30.0) -> Any:
        """Result of a future."""
        self.wait_for(future.done, what, timeout_s)
        return future.result()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._executor.shutdown(timeout_sec=1.0)
        self.node.destroy_node()
        rclpy.try_shutdown(context=self.context)


class StandInArm(Client):
    """Publishes joint states at 250 Hz like a driver and follows position commands at once.

    `mode` spoils what it publishes: normal, silent, frozen, nan, incomplete, gripper_only.
    """

    ORDER = (1, 2, 3, 4, 5, 0)  # the driver's order is not the controller's

    def __init__(self, namespace: str, prefix: str = "", noise_rad: float = 1e-7) -> None:
        super().__init__(namespace, "stand_in_arm")
        self.q = UR5E.home.copy()
        self.mode = "normal"
        self.commands: list[tuple[float, np.ndarray]] = []  # (monotonic time, values)
        self._noise_rad, self._flip = noise_rad, 1.0
        self._names = [prefix + name for name in UR5E.joint_names]
        self._velocity = np.zeros(6)
        self._publisher = self.node.create_publisher(JointState, "joint_states", 10)
        self.node.create_subscription(Float64MultiArray, COMMANDS, self._on_command, 10)
        self.node.create_timer(0.004, self._publish)

    def _on_command(self, message: Float64MultiArray) -> None:
        values = np.array(message.data)
        self.commands.append((time.monotonic(), values))
        if values.shape == (6,) and self.mode != "frozen":
            self.q = values

    def _publish(self) -> None:
        if self.mode == "silent":
            return
        self._flip = -self._flip
        q = self.q + (0.0 if self.mode == "frozen" else self._flip * self._noise_rad)
        order = list(self.ORDER)
        if self.mode == "incomplete":
            order.remove(2)
        message = JointState(
            name=[self._names[i] for i in order] + ["robotiq_85_left_knuckle_joint"],
            position=[float(q[i]) for i in order] + [0.1],
            velocity=[0.0] * (len(order) + 1),
        )
        if self.mode == "nan":
            message.position[order.index(2)] = float("nan")
        if self.mode == "gripper_only":
            message = JointState(name=message.name[-1:], position=[0.1], velocity=[0.0])
        message.header.stamp = self.node.get_clock().now().to_msg()
        self._publisher.publish(message)


def servo_bundle(path: Path, gain: float = 0.05, spoil: float = 1.0) -> Path:
    """A bundle of the UR5e's position-only reach whose policy is linear: a Jacobian servo about home.

    It reaches goals within some centimetres of the home pose. spoil: factor on its golden actions.
    """
    import onnx

    from rlinf_ros.contract.load import load_contract
    from rlinf_ros.pipeline.action import ActionPipeline
    from rlinf_ros.pipeline.observation import ObservationPipeline
    from rlinf_ros.policy.bundle import save_bundle
    from rlinf_ros.policy.onnx_policy import OnnxPolicy

    contract = load_contract(UR5E.path.parent / "contracts" / "reach_position.yaml")
    observe, act = ObservationPipeline(contract, UR5E), ActionPipeline(contract, UR5E)
    step = 1e-6
    home = observe.kinematics.forward(UR5E.home)[0]
    jacobian = np.stack(
        [(observe.kinematics.forward(UR5E.home + step * e)[0] - home) / step for e in np.eye(6)], 1
    )
    inverse = np.linalg.pinv(jacobian)  # (6, 3)
    names = observe.element_names()
    term = next(t for t in contract.observation.terms if t.kind == "goal_position_error")
    action = contract.action.terms[0]
    weight = np.zeros((observe.size, 6), dtype=np.float32)
    for k, axis in enumerate("xyz"):
        row = names.index(f"{term.name}[{axis}]")
        weight[row] = gain * inverse[:, k] / term.scale[k] / np.array(action.scale)
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["observation", "w"], ["action"])],
        "servo",
        [helper.make_tensor_value_info("observation", onnx.TensorProto.FLOAT, ["N", observe.size])],
        [helper.make_tensor_value_info("action", onnx.TensorProto.FLOAT, ["N", 6])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    content = model.SerializeToString()
    policy = OnnxPolicy(content, observe.size, 6, "servo")
    rng = np.random.default_rng(0)
    rows: dict[str, list[np.ndarray]] = {}
    for _ in range(4):
        q = UR5E.home + 0.2 * rng.standard_normal((3, 6))
        state = {
            "joint_position": q,
            "joint_velocity": rng.standard_normal((3, 6)),
            "last_command": q + 0.01,
            "last_action": rng.standard_normal((3, 6)),
            "goal_position": home + 0.05 * rng.standard_normal((3, 3)),
            "goal_quat_xyzw": np.tile([0.0, 0.0, 0.0, 1.0], (3, 1)),
        }
        observation = observe.observe(observe.context(state))
        raw = policy(observation)
        row = state | {"observation": observation, "action": spoil * raw}
        row["command"] = act.command(raw, state)
        for key, value in row.items():
            rows.setdefault(key, []).append(value)
    golden = {key: np.stack(values) for key, values in rows.items()}
    golden["joint_names"] = np.array(UR5E.joint_names)
    manifest = {"name": "servo", "created": "", "robot": {}, "versions": {}, "training": {}}
    return save_bundle(path, contract=contract, onnx=content, golden=golden, manifest=manifest)
