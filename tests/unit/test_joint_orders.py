"""The driver's joint orders: read by name they all give the same arm."""

import itertools

import numpy as np
import pytest

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.pipeline.joints import JointReader
from rlinf_ros.robot.description import load_robot
from rlinf_ros.runtime.twin.orders import JOINT_ORDERS, joint_order

UR5E = load_robot("ur5e")


@pytest.mark.parametrize("name", JOINT_ORDERS)
def test_each_order_is_a_permutation_and_reads_back_by_name(name: str) -> None:
    order = joint_order(name, UR5E.joint_names, UR5E.driver("ur_humble"))
    assert sorted(order) == sorted(UR5E.joint_names)
    values = np.arange(1.0, 7.0)  # in controller order
    published = [values[UR5E.joint_names.index(joint)] for joint in order]
    assert JointReader(UR5E.joint_names).read(order, published, "position").tolist() == list(values)


def test_only_the_export_order_is_the_controllers() -> None:
    same = [name for name, order in JOINT_ORDERS.items() if order == UR5E.joint_names]
    assert same == ["export"]
    for a, b in itertools.combinations(JOINT_ORDERS.values(), 2):
        assert a != b


def test_golden_orders() -> None:
    first = {name: order[0] for name, order in JOINT_ORDERS.items()}
    assert first == {
        "alphabetical": "elbow_joint",
        "humble_13": "shoulder_lift_joint",
        "humble_14": "shoulder_pan_joint",
        "humble_left": "wrist_1_joint",
        "humble_right": "shoulder_pan_joint",
        "export": "shoulder_pan_joint",
    }
    assert list(JOINT_ORDERS["alphabetical"]) == sorted(UR5E.joint_names)
    assert JOINT_ORDERS["humble_14"][1:3] == ("wrist_2_joint", "wrist_3_joint")
    assert JOINT_ORDERS["humble_right"][3:] == ("wrist_3_joint", "wrist_2_joint", "elbow_joint")


def test_driver_profiles_name_orders_of_the_table() -> None:
    profiles = {name: driver.joint_state_order for name, driver in UR5E.drivers.items()}
    assert profiles["ur_jazzy"] == JOINT_ORDERS["alphabetical"]
    assert profiles["ur_lyrical"] == JOINT_ORDERS["export"]
    for driver in UR5E.drivers.values():
        assert joint_order("driver", UR5E.joint_names, driver) == driver.joint_state_order


def test_unknown_order_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'humble_13'\?"):
        joint_order("humbel_13", UR5E.joint_names, UR5E.driver("ur_humble"))


def test_order_of_another_arm_is_refused() -> None:
    with pytest.raises(ConfigError, match="use 'driver'"):
        joint_order("humble_13", ["joint1", "joint2"], UR5E.driver("ur_humble"))
