"""The robot as data: robot.yaml and its URDF, checked against each other; the MuJoCo model of both.

Modules: description, urdf, mujoco_model, meshes. May import contract; never ROS, torch or training.
"""
