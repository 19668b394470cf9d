"""The exported policy: PolicyBundle (load, save), the ONNX policy, and verify.

Imports contract, robot, pipeline, onnxruntime; no torch, no ROS.
"""
