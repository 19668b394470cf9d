"""Learning algorithms: ppo, flat (one buffer for all parameters), parallel (side by side).

Imports torch, models, storage, config; never a simulator.
"""
