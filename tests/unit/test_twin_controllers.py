"""The twin's controllers, cycle by cycle, without simulator or ROS."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlinf_ros.runtime.twin.controllers import (
    CommandError,
    ForwardController,
    TrajectoryController,
    TrajectoryPoint,
)

NAMES = ("a", "b", "c")


def active_forward() -> ForwardController:
    controller = ForwardController(3)
    controller.activate()
    return controller


def test_forward_writes_nothing_before_the_first_command_and_keeps_the_last() -> None:
    controller = active_forward()
    assert controller.update() is None
    controller.receive([1.0, 2.0, 3.0])
    for _ in range(3):  # no time-out
        assert controller.update().tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("length", [1, 2, 4, 7])
def test_forward_wrong_length_is_an_error_in_update(length: int) -> None:
    controller = active_forward()
    controller.receive([0.0] * length)  # the message itself is taken, as on the driver
    with pytest.raises(CommandError, match=rf"command size \({length}\).*interfaces \(3\)"):
        controller.update()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_forward_drops_what_is_not_finite_and_keeps_the_command_before(bad: float) -> None:
    controller = active_forward()
    controller.receive([1.0, 2.0, 3.0])
    with pytest.raises(CommandError, match="not finite"):
        controller.receive([1.0, bad, 3.0])
    assert controller.update().tolist() == [1.0, 2.0, 3.0]


def test_forward_empty_data_counts_as_no_command() -> None:
    controller = active_forward()
    controller.receive([1.0, 2.0, 3.0])
    controller.receive([])
    assert controller.update() is None


def test_forward_forgets_its_command_when_deactivated() -> None:
    controller = active_forward()
    controller.receive([1.0, 2.0, 3.0])
    controller.deactivate()
    with pytest.raises(CommandError, match="not active"):
        controller.receive([1.0, 2.0, 3.0])
    controller.activate()
    assert controller.update() is None


def trajectory(points, names=NAMES, start_s=0.0, now_s=0.0, prefix="") -> TrajectoryController:
    controller = TrajectoryController(NAMES, prefix)
    controller.activate()
    controller.receive(
        names,
        [TrajectoryPoint(*p) for p in points],
        start_s=start_s,
        now_s=now_s,
        current=np.zeros(3),
    )
    return controller


def test_trajectory_goes_by_name_and_interpolates() -> None:
    points = [(1.0, [3.0, 1.0, 2.0]), (2.0, [6.0, 2.0, 4.0])]
    controller = trajectory(points, names=("c", "a", "b"))
    expected = {0.0: 0.0, 0.5: 0.5, 1.0: 1.0, 1.5: 1.5, 2.0: 2.0, 9.0: 2.0}
    for now_s, factor in expected.items():
        assert controller.update(now_s) == pytest.approx(factor * np.array([1.0, 2.0, 3.0]))


def test_trajectory_takes_prefixed_names_only() -> None:
    names = ("left_a", "left_b", "left_c")
    assert trajectory([(1.0, [1.0] * 3)], names, prefix="left_").update(1.0).tolist() == [1.0] * 3
    with pytest.raises(CommandError, match="'left_a' is missing"):
        trajectory([(1.0, [1.0] * 3)], prefix="left_")


@pytest.mark.parametrize(
    ("points", "names", "reason"),
    [
        ([], NAMES, "no points"),
        ([(1.0, [1.0, 2.0])], ("a", "b"), "2 joints, the controller has 3"),
        ([(1.0, [1.0, 2.0, 3.0])], ("a", "b", "d"), "'c' is missing"),
        ([(1.0, [1.0, 2.0, 3.0])], ("a", "b", "b"), "appears 2 times"),
        ([(1.0, [1.0, 2.0])], NAMES, "2 values for 3 joint names"),
        ([(1.0, [1.0] * 3), (1.0, [2.0] * 3)], NAMES, "does not rise"),
        ([(1.0, [1.0, math.nan, 3.0])], NAMES, "not finite"),
    ],
)
def test_trajectory_rejects(points, names, reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        trajectory(points, names)


def test_trajectory_that_ended_is_rejected_and_a_late_one_is_joined() -> None:
    with pytest.raises(CommandError, match="in the past"):
        trajectory([(1.0, [1.0] * 3)], start_s=-2.0)
    late = trajectory([(0.0, [0.0] * 3), (2.0, [2.0] * 3)], start_s=-1.0)
    assert late.update(0.5) == pytest.approx([1.5] * 3)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5),
    st.lists(st.floats(-3.0, 3.0), min_size=5, max_size=5),
    st.floats(0.0, 6.0),
)
def test_trajectory_stays_between_its_points(steps, values, now_s) -> None:
    times = np.cumsum(steps)
    points = [(float(t), [values[i]] * 3) for i, t in enumerate(times)]
    target = trajectory(points).update(now_s)
    used = [0.0, *values[: len(times)]]
    assert np.all(target >= min(used) - 1e-12) and np.all(target <= max(used) + 1e-12)
    if now_s >= times[-1]:
        assert target.tolist() == points[-1][1]
