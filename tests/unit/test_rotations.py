"""Rotation helpers: properties that hold for every rotation, and the hard corners by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.pipeline import rotations as rot

numbers = st.floats(-1, 1, allow_nan=False).map(lambda x: 0.0 if abs(x) < 1e-6 else x)
vectors = arrays(np.float64, 3, elements=numbers)
quats = (
    arrays(np.float64, 4, elements=numbers)
    .filter(lambda q: np.linalg.norm(q) > 1e-3)
    .map(lambda q: q / np.linalg.norm(q))
)


def same_turn(a: np.ndarray, b: np.ndarray, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(a * np.sign(np.sum(a * b, -1, keepdims=True)), b, atol=atol)


@given(quats, quats, vectors)
def test_product_turns_as_matrices_do(a, b, v):
    product = rot.quat_multiply(a, b)
    matrix = rot.quat_to_matrix(a) @ rot.quat_to_matrix(b)
    np.testing.assert_allclose(rot.quat_to_matrix(product), matrix, atol=1e-12)
    np.testing.assert_allclose(rot.quat_rotate(product, v), matrix @ v, atol=1e-12)
    np.testing.assert_allclose(
        rot.quat_rotate(rot.quat_conjugate(product), matrix @ v), v, atol=1e-12
    )
    np.testing.assert_allclose(np.linalg.det(matrix), 1.0, atol=1e-12)


@given(quats)
def test_matrix_and_back(q):
    back = rot.matrix_to_quat(rot.quat_to_matrix(q))
    assert back[3] >= 0
    same_turn(back, q)


@given(quats)
def test_rotvec_and_back(q):
    v = rot.quat_to_rotvec(q)
    assert np.linalg.norm(v) <= np.pi + 1e-12
    same_turn(rot.quat_from_rotvec(v), q)


@given(vectors.filter(lambda v: np.linalg.norm(v) > 1e-3), st.floats(-20, 20))
def test_angle_of_a_turn(axis, angle):
    axis = axis / np.linalg.norm(axis)
    q = rot.quat_from_rotvec(axis * angle)
    shorter = abs((angle + np.pi) % (2 * np.pi) - np.pi)
    zero = np.array([0.0, 0, 0, 1])
    np.testing.assert_allclose(rot.quat_angle(zero, q), shorter, atol=1e-9)
    np.testing.assert_allclose(rot.quat_angle(-q, q), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(rot.quat_to_rotvec(q)), shorter, atol=1e-9)


@given(quats)
def test_orders_and_rot6d(q):
    assert rot.xyzw_to_wxyz(q)[0] == q[3]
    np.testing.assert_array_equal(rot.wxyz_to_xyzw(rot.xyzw_to_wxyz(q)), q)
    m = rot.quat_to_matrix(q)
    np.testing.assert_array_equal(rot.matrix_to_rot6d(m), np.concatenate([m[:, 0], m[:, 1]]))


def test_known_turn():
    """90° about z takes x to y: fixes the handedness and the xyzw order."""
    q = np.array([0, 0, np.sqrt(0.5), np.sqrt(0.5)])
    np.testing.assert_allclose(rot.quat_rotate(q, np.array([1.0, 0, 0])), [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(rot.quat_to_rotvec(q), [0, 0, np.pi / 2], atol=1e-12)


@pytest.mark.parametrize("axis", np.vstack([np.eye(3), [[0.6, 0.8, 0], [1, 1, 1], [-1, 2, 3]]]))
@pytest.mark.parametrize("angle", [0, 1e-12, 1e-5, 9e-5, 1.1e-4, 2e-4, 1, np.pi - 1e-9, np.pi])
def test_full_precision_at_small_and_half_turns(axis, angle):
    v = axis / np.linalg.norm(axis) * angle
    q = rot.quat_from_rotvec(v)
    np.testing.assert_allclose(np.linalg.norm(q), 1.0, atol=1e-15)
    back = rot.quat_to_rotvec(q)
    np.testing.assert_allclose(back * (np.sign(back @ v) or 1), v, rtol=1e-12, atol=1e-15)
    same_turn(rot.matrix_to_quat(rot.quat_to_matrix(q)), q, atol=1e-15)


def test_broadcasting_over_leading_axes():
    rng = np.random.default_rng(0)
    q = rng.normal(size=(4, 1, 4))
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    v = rng.normal(size=(5, 3))
    out = rot.quat_rotate(q, v)
    assert out.shape == (4, 5, 3)
    np.testing.assert_allclose(out[2, 3], rot.quat_rotate(q[2, 0], v[3]), atol=1e-15)
    matrices = rot.quat_to_matrix(np.broadcast_to(q, (4, 5, 4)))
    quats = rot.matrix_to_quat(matrices)
    assert matrices.shape == (4, 5, 3, 3) and quats.shape == (4, 5, 4)
    np.testing.assert_allclose(quats[1, 2], rot.matrix_to_quat(matrices[1, 2]), atol=1e-15)


def test_check_quat():
    q = np.array([[0, 0, 0, 1.0005], [1.0, 0, 0, 0]])
    np.testing.assert_allclose(np.linalg.norm(rot.check_quat(q), axis=-1), 1.0)
    for bad in ([0.0, 0, 0, 0], [0, 0, 0, 1.01], [0, 0, np.nan, 1]):
        with pytest.raises(ConfigError, match=r"goal.*not a unit quaternion"):
            rot.check_quat(np.array([[0, 0, 0, 1.0], bad]), where="goal")
    with pytest.raises(ConfigError, match="4 values"):
        rot.check_quat(np.zeros(3))
