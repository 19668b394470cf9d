"""Buffers between collection and learning: rollout (on-policy), gae (advantages).

Imports torch, and envs.base for the shape of a step.
"""
