"""Parameters of our nodes: declared once, read-only while running, described, checked for their kind."""

from __future__ import annotations

from typing import TypeVar

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from ..contract.errors import ConfigError

T = TypeVar("T", str, float, bool)


def declare(node: Node, name: str, default: T, description: str, *, read_only: bool = True) -> T:
    """Declare a parameter and return its value. Raises ConfigError if it is of another kind."""
    # dynamic: `rate_hz:=125` is an integer to ROS and must do as well as 125.0
    descriptor = ParameterDescriptor(
        description=description, read_only=read_only, dynamic_typing=True
    )
    node.declare_parameter(name, default, descriptor)
    return get(node, name, default)


def get(node: Node, name: str, like: T) -> T:
    """The present value of a declared parameter, of the kind of `like`."""
    value = node.get_parameter(name).value
    kind = (int, float) if isinstance(like, float) else type(like)
    if not isinstance(value, kind) or isinstance(value, bool) != isinstance(like, bool):
        raise ConfigError(
            f"{value!r} does not fit", where=f"parameter {name}", allowed=f"like {like!r}"
        )
    return type(like)(value)
