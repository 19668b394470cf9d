"""The policy's side of control, without ROS: robot_io, goal, control_loop, run.

Imports contract, robot, pipeline, policy and safety; never ROS or torch.
"""
