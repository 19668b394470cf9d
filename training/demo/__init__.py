"""`make demo`: train, export, run over ROS 2, report. flow (the story), ros (processes), plots.

Starts the ROS nodes as processes of their own; imports no ROS.
"""
