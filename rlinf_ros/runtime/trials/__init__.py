"""Trials of a reach policy on an arm: goals, what was recorded, how it is judged and written.

Modules: goals, recording, replay, record. May import contract, robot, pipeline.
"""
