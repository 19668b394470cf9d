"""ROS 2 nodes, the only room that imports rclpy: policy_node, guard_node, twin_node and their helpers.

May import every other room of rlinf_ros; never torch, ray or training.
"""
