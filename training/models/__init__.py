"""Policies and critics: actor_critic, normalizer, activations, mlp_gradient (backward pass).

Imports torch, and config for the sizes.
"""
