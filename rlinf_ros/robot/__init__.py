"""The robot as data: robot.yaml and its URDF, checked against each other; the MuJoCo model of both.

Modules: description, reading, urdf, mujoco_model, scene, meshes. Imports contract; no ROS or torch.
"""
