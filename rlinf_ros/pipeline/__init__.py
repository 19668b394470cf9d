"""Execution of the contract: joints, terms, observation, action, limits, history, kinematics.

One body for numpy and torch arrays of shape (..., D). Imports contract and robot; no ROS, no torch.
"""
