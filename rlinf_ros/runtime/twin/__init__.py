"""The twin: a simulated arm that speaks its driver's dialect, without ROS.

Modules: orders, controllers, arm. May import contract, robot, pipeline; mujoco in functions only.
"""
