"""The recipes by name, and finding one in a file of the user's own."""

from __future__ import annotations

from collections.abc import Callable

from rlinf_ros.contract.errors import ConfigError, nearest
from rlinf_ros_training.config import Recipe
from rlinf_ros_training.userfile import is_reference, load_object

from . import reach

RECIPES: dict[str, Callable[[], Recipe]] = {
    "reach": reach.reach,
    "reach_position": reach.reach_position,
}


def find_recipe(name: str) -> Recipe:
    """A recipe by its name, or `path/to/file.py:function` for one of your own."""
    if name in RECIPES:
        return RECIPES[name]()
    if not is_reference(name):
        raise ConfigError(
            f"no recipe '{name}'",
            where="recipe",
            allowed=[*RECIPES, "path/to/file.py:function"],
            fix=nearest(name, RECIPES),
        )
    function = load_object(name, "recipe")
    recipe = function() if callable(function) else None
    if not isinstance(recipe, Recipe):
        raise ConfigError(f"'{name}' is not a function that returns a Recipe", where="recipe")
    return recipe
