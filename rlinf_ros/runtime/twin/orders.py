"""In which order a UR driver lists the joints in `joint_states`: it depends on versions and prefix.

Up to Humble the joint_state_broadcaster walks a hash map: the order follows from the names' hashes
(so from the prefix) and from the table's size, which grew when driver 2.13.1 added a state
interface. From Jazzy it walks the URDF's joints, sorted by name; from Lyrical the order of export.
The broadcaster's maintainers promise no order; a reader must go by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rlinf_ros.contract.errors import ConfigError, nearest
from rlinf_ros.robot.description import Driver

_PAN, _LIFT, _ELBOW = "shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint"
_W1, _W2, _W3 = "wrist_1_joint", "wrist_2_joint", "wrist_3_joint"

JOINT_ORDERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "alphabetical": (_ELBOW, _LIFT, _PAN, _W1, _W2, _W3),  # ROS 1; Jazzy and Kilted
        "humble_13": (_LIFT, _ELBOW, _W1, _W2, _W3, _PAN),  # Humble, driver up to 2.13.0
        "humble_14": (_PAN, _W2, _W3, _W1, _ELBOW, _LIFT),  # Humble, driver from 2.13.1
        "humble_left": (_W1, _W2, _W3, _PAN, _LIFT, _ELBOW),  # as humble_13, tf_prefix left_
        "humble_right": (_PAN, _LIFT, _W1, _W3, _W2, _ELBOW),  # as humble_13, tf_prefix right_
        "export": (_PAN, _LIFT, _ELBOW, _W1, _W2, _W3),  # Lyrical and later
    }
)
DRIVER = "driver"  # take the order that the driver profile in robot.yaml gives


def joint_order(name: str, joint_names: Sequence[str], driver: Driver) -> tuple[str, ...]:
    """Joint names, without prefix, in the order called `name`.

    name: a key of JOINT_ORDERS, or `driver` for the profile's own. Raises ConfigError for another
    name, or when the order is not one of these joints.
    """
    where = "parameter joint_state_order"
    if name == DRIVER:
        return driver.joint_state_order
    if name not in JOINT_ORDERS:
        raise ConfigError(
            f"unknown order '{name}'",
            where=where,
            allowed=[*JOINT_ORDERS, DRIVER],
            fix=nearest(name, [*JOINT_ORDERS, DRIVER]),
        )
    order = JOINT_ORDERS[name]
    if sorted(order) != sorted(joint_names):
        raise ConfigError(
            f"'{name}' orders a UR arm's joints, this robot has {', '.join(joint_names)}",
            where=where,
            fix=f"use '{DRIVER}', the order of the driver profile '{driver.name}'",
        )
    return order
