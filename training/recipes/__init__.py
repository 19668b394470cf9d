"""Named full runs: each recipe is a function that returns a typed Recipe; see `find_recipe`.

Imports config; builds no environment and loads no torch.
"""
