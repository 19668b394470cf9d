"""Training side of rlinf_ros: envs, models, storage, algorithms, recipes, runner, export.

Imports torch, simulators and rlinf_ros's contract, robot, pipeline, policy; never ROS.
"""
