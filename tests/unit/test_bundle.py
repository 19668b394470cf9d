"""PolicyBundle: what was saved comes back, what was touched is refused, verify names the term."""

import json
import shutil

import numpy as np
import pytest
import yaml

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.contract.load import parse_contract
from rlinf_ros.pipeline.action import ActionPipeline
from rlinf_ros.pipeline.observation import ObservationPipeline
from rlinf_ros.policy.bundle import PolicyBundle, save_bundle
from rlinf_ros.policy.verify import VerifyError, make_policy, verify
from rlinf_ros.robot.description import load_robot

from .test_contract import JOINTS, document

onnx = pytest.importorskip("onnx", reason="needs onnx to build a policy: pip install onnx")
UR5E = load_robot("ur5e")


def linear_policy(d: int, a: int) -> bytes:
    rng = np.random.default_rng(3)
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weight = numpy_helper.from_array(rng.normal(size=(d, a)).astype(np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["observation", "w"], ["y"]),
            helper.make_node("Tanh", ["y"], ["action"]),
        ],
        "policy",
        [helper.make_tensor_value_info("observation", onnx.TensorProto.FLOAT, ["N", d])],
        [helper.make_tensor_value_info("action", onnx.TensorProto.FLOAT, ["N", a])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model.SerializeToString()


def golden_samples(contract, policy, order):
    observe, act = ObservationPipeline(contract, UR5E), ActionPipeline(contract, UR5E)
    rng = np.random.default_rng(1)
    rows: dict[str, list] = {}
    for _ in range(4):
        q = UR5E.home + rng.normal(size=(3, 6)) * 0.3
        s = {
            "joint_position": q,
            "joint_velocity": rng.normal(size=(3, 6)),
            "last_command": q + 0.01,
            "last_action": rng.normal(size=(3, 6)),
        }
        obs = observe.observe(observe.context(s))
        action = policy(obs)
        shuffled = {k: s[k][..., order] for k in ("joint_position", "joint_velocity")}
        row = {
            **s,
            **shuffled,
            "observation": obs,
            "action": action,
            "command": act.command(action, s),
        }
        for key, value in row.items():
            rows.setdefault(key, []).append(value)
    golden = {key: np.stack(values) for key, values in rows.items()}
    golden["joint_names"] = np.array([JOINTS[i] for i in order])
    return golden


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    contract = parse_contract(yaml.safe_dump(document()))
    model = linear_policy(contract.observation.size, contract.action.size)
    from rlinf_ros.policy.onnx_policy import OnnxPolicy

    policy = OnnxPolicy(model, contract.observation.size, contract.action.size, "memory")
    golden = golden_samples(contract, policy, (1, 2, 3, 4, 5, 0))
    manifest = {
        "name": "t",
        "created": "now",
        "robot": {"name": "ur5e"},
        "versions": {},
        "training": {},
    }
    path = tmp_path_factory.mktemp("b") / "bundle"
    save_bundle(path, contract=contract, onnx=model, golden=golden, manifest=manifest)
    return path, contract, model, golden, manifest


def edited(saved, tmp_path, **golden_changes):
    """A bundle with consistent hashes whose golden samples say something else."""
    _, contract, model, golden, manifest = saved
    path = tmp_path / "edited"
    save_bundle(
        path, contract=contract, onnx=model, golden={**golden, **golden_changes}, manifest=manifest
    )
    return PolicyBundle.load(path)


def test_a_saved_bundle_verifies(saved):
    path, contract, model, *_ = saved
    bundle = PolicyBundle.load(path)
    assert bundle.contract.text == contract.text and bundle.onnx == model
    report = verify(bundle, UR5E)
    assert report.samples == 12 and report.observation_max_abs == 0.0
    assert make_policy(bundle)(np.ones((2, 10), np.float32)).shape == (2, 6)


@pytest.mark.parametrize("name", ["policy.onnx", "contract.yaml", "golden.npz"])
def test_a_changed_byte_is_refused(saved, tmp_path, name):
    path = shutil.copytree(saved[0], tmp_path / "b")
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=f"{name}: edited after the export"):
        PolicyBundle.load(path)


@pytest.mark.parametrize("name", ["policy.onnx", "contract.yaml", "golden.npz"])
def test_a_truncated_or_missing_file_is_refused(saved, tmp_path, name):
    path = shutil.copytree(saved[0], tmp_path / "b")
    (path / name).write_bytes((path / name).read_bytes()[:-10])
    with pytest.raises(ConfigError, match=f"{name}: truncated"):
        PolicyBundle.load(path)
    (path / name).unlink()
    with pytest.raises(ConfigError, match=f"{name}: cannot be read"):
        PolicyBundle.load(path)


def test_manifest_must_be_whole(saved, tmp_path):
    path = shutil.copytree(saved[0], tmp_path / "b")
    manifest = path / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text[: len(text) // 2])
    with pytest.raises(ConfigError, match="not valid JSON"):
        PolicyBundle.load(path)
    manifest.write_text(json.dumps({**json.loads(text), "extra": 1}))
    with pytest.raises(ConfigError, match="extra: unknown key"):
        PolicyBundle.load(path)
    with pytest.raises(ConfigError, match="no such bundle folder"):
        PolicyBundle.load(tmp_path / "none")


def test_verify_names_the_term_that_differs(saved, tmp_path):
    observation = saved[3]["observation"].copy()
    observation[2, 1, 4] += 1e-3
    with pytest.raises(
        VerifyError, match=r"observation term 'q\[wrist_2_joint\]' differs by 0.001"
    ):
        verify(edited(saved, tmp_path, observation=observation), UR5E)


def test_verify_names_the_joint_whose_action_differs(saved, tmp_path):
    action = saved[3]["action"].copy()
    action[0, 0, 2] = np.nan
    with pytest.raises(VerifyError, match="action of 'elbow_joint' differs by nan"):
        verify(edited(saved, tmp_path, action=action), UR5E)


def test_all_zero_samples_prove_nothing(saved, tmp_path):
    zero = np.zeros_like(saved[3]["observation"])
    with pytest.raises(VerifyError, match="prove nothing"):
        verify(edited(saved, tmp_path, observation=zero), UR5E)


def test_a_bundle_for_another_robot_is_refused(saved):
    with pytest.raises(ConfigError, match="made for robot 'ur5e', this robot is 'ur5'"):
        verify(PolicyBundle.load(saved[0]), load_robot("ur5"))


def test_saving_over_a_bundle_replaces_it_whole(saved, tmp_path):
    _, contract, model, golden, manifest = saved
    path = tmp_path / "b"
    for name in ("first", "second"):
        save_bundle(
            path, contract=contract, onnx=model, golden=golden, manifest={**manifest, "name": name}
        )
    assert PolicyBundle.load(path).manifest["name"] == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_a_bundle_that_fails_its_check_leaves_the_old_one(saved, tmp_path):
    _, contract, model, golden, manifest = saved
    path = tmp_path / "b"
    parts = {"contract": contract, "onnx": model, "manifest": manifest}
    save_bundle(path, golden=golden, **parts)
    before = (path / "manifest.json").read_bytes()
    wrong = {**golden, "action": golden["action"] + 1.0}
    with pytest.raises(VerifyError):
        save_bundle(path, golden=wrong, check=lambda b: verify(b, UR5E), **parts)
    assert (path / "manifest.json").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_a_policy_of_the_wrong_size_is_refused(saved, tmp_path):
    _, contract, _, golden, manifest = saved
    path = tmp_path / "b"
    save_bundle(path, contract=contract, onnx=linear_policy(9, 6), golden=golden, manifest=manifest)
    with pytest.raises(ConfigError, match=r"observation is tensor\(float\) \['N', 9\]"):
        make_policy(PolicyBundle.load(path))
