"""Quality of service, in one place, with the why; and loud errors where two sides don't fit.

A publisher and a subscription whose policies don't fit exchange nothing and say nothing. So every
endpoint is made here, with an event callback that logs which topic and which policy it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)
from rclpy.subscription import Subscription

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:  # Humble
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks


def _profile(
    depth: int, reliability: ReliabilityPolicy, durability: DurabilityPolicy
) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=durability
    )


# Sensor streams, as we receive them: fits reliable and best-effort publishers alike, and with depth 1
# a slow reader gets the newest value, never a queue of old ones.
SENSOR = _profile(1, ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)
# Actions, commands, heartbeats: none may be lost on the way, and only the newest counts.
NEWEST = _profile(1, ReliabilityPolicy.RELIABLE, DurabilityPolicy.VOLATILE)
# What recorders want whole: observations and sent commands.
RECORD = _profile(50, ReliabilityPolicy.RELIABLE, DurabilityPolicy.VOLATILE)
# States: who comes late still learns the present one.
LATCHED = _profile(1, ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL)


def subscribe(
    node: Node,
    message_type: type,
    topic: str,
    callback: Callable[[Any], None],
    profile: QoSProfile,
    group: CallbackGroup | None = None,
) -> Subscription:
    """A subscription that logs an error when a publisher's QoS does not fit."""

    def incompatible(event: Any) -> None:
        node.get_logger().error(
            f"nothing will be received from a publisher on '{subscription.topic_name}': its QoS "
            f"policy {qos_policy_name_from_kind(event.last_policy_kind)} does not fit ours"
        )

    subscription: Subscription = node.create_subscription(
        message_type,
        topic,
        callback,
        profile,
        callback_group=group,
        event_callbacks=SubscriptionEventCallbacks(incompatible_qos=incompatible),
    )
    return subscription


def advertise(node: Node, message_type: type, topic: str, profile: QoSProfile) -> Publisher:
    """A publisher that logs an error when a subscription's QoS does not fit."""

    def incompatible(event: Any) -> None:
        node.get_logger().error(
            f"a subscription on '{publisher.topic_name}' will receive nothing: its QoS policy "
            f"{qos_policy_name_from_kind(event.last_policy_kind)} does not fit ours"
        )

    publisher: Publisher = node.create_publisher(
        message_type,
        topic,
        profile,
        event_callbacks=PublisherEventCallbacks(incompatible_qos=incompatible),
    )
    return publisher
