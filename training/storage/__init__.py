"""Buffers between collection and learning: rollout (on-policy), gae (advantages).

Imports torch only.
"""
