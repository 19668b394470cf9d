"""Vectorised environments: base (the protocol), mujoco_env, one file per task in tasks/.

Imports contract, robot, pipeline; never ROS.
"""
