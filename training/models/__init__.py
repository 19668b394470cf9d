"""Policies and critics: actor_critic, normalizer, activations.

Imports torch, and config for the sizes.
"""
