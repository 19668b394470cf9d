"""Objects from a Python file of the user's own: `path/to/file.py:Name`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from rlinf_ros.contract.errors import ConfigError


def is_reference(text: str) -> bool:
    """Whether text has the form `path/to/file.py:Name`."""
    return text.rpartition(":")[0].endswith(".py")


def load_object(reference: str, where: str) -> object:
    """The object `Name` of the file. Raises ConfigError if there is no such file or name."""
    path, _, name = reference.rpartition(":")
    if not Path(path).is_file():
        raise ConfigError(f"no such file: {path}", where=where)
    module_name = f"rlinf_user_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses in the user's file look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{type(error).__name__} in {path}: {error}", where=where) from error
    if not hasattr(module, name):
        names = sorted(
            n for n, v in vars(module).items() if getattr(v, "__module__", "") == module_name
        )
        raise ConfigError(f"{path} has no '{name}'", where=where, allowed=names)
    return getattr(module, name)
