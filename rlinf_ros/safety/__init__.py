"""Safety without ROS: reason, limits, judge, motion, watchdog, governor; pure, in arrays and s.

Imports contract, robot and pipeline.
"""
