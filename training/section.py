"""Checked sections of a recipe: types and limits, reading from text and mappings, and back.

Each value is checked against its annotation and limits whenever a section is built, so an override,
a saved file and a mistake in Python all end in the same ConfigError.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rlinf_ros.contract.errors import ConfigError, nearest

T = TypeVar("T")
S = TypeVar("S", bound="Section")


def limited(default: T, low: float = -math.inf, high: float = math.inf) -> T:
    """A dataclass field whose number (or each number of a tuple) must lie in [low, high]."""
    value: T = field(default=default, metadata={"low": low, "high": high})
    return value


class Section:
    """Base of all parts of a recipe; checks every field when built."""

    path: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            where = f"{self.path}.{f.name}" if self.path else f.name
            checked = _checked(getattr(self, f.name), _hints(type(self))[f.name], where)
            _check_limits(checked, f.metadata, where)
            object.__setattr__(self, f.name, checked)


def flatten(recipe: Section) -> dict[str, Any]:
    """All leaf values by dotted path."""
    flat: dict[str, Any] = {}
    for f in dataclasses.fields(recipe):  # type: ignore[arg-type]
        value = getattr(recipe, f.name)
        if isinstance(value, Section):
            flat |= {f"{f.name}.{key}": leaf for key, leaf in flatten(value).items()}
        else:
            flat[f.name] = value
    return flat


def plain(section: Section) -> dict[str, Any]:
    """Nested dicts of plain YAML values."""
    values: dict[str, Any] = {}
    for f in dataclasses.fields(section):  # type: ignore[arg-type]
        value = getattr(section, f.name)
        if isinstance(value, Section):
            values[f.name] = plain(value)
        else:
            values[f.name] = list(value) if isinstance(value, tuple) else value
    return values


def from_mapping(cls: type[S], mapping: Any, where: str) -> S:
    """Build a section from nested mappings; absent keys take their default."""
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"expected a mapping, got {type(mapping).__name__}", where=where)
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        path = f"{where}.{key}"
        annotation = _known(hints, str(key), path)
        if isinstance(annotation, type) and issubclass(annotation, Section):
            value = from_mapping(annotation, value, path)
        values[str(key)] = _checked(value, annotation, path)
    return cls(**values)


def replaced(section: S, keys: list[str], text: str, where: str) -> S:
    """`section` with the value at the path `keys` read from `text` by the field's type."""
    annotation = _known(_hints(type(section)), keys[0], where)
    inner = getattr(section, keys[0])
    if isinstance(inner, Section):
        if len(keys) == 1:
            raise ConfigError(
                "names a section, not a value",
                where=where,
                allowed=[f"{where}.{name}" for name in _hints(type(inner))],
            )
        value: Any = replaced(inner, keys[1:], text, where)
    elif len(keys) > 1:
        raise ConfigError(f"'{keys[0]}' is a value and has no parts", where=where)
    else:
        value = _parsed(text, annotation, where)
    return dataclasses.replace(section, **{keys[0]: value})  # type: ignore[type-var]


def _hints(cls: type[Section]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return {name: hint for name, hint in get_type_hints(cls).items() if name in names}


def _known(hints: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in hints:
        raise ConfigError(
            f"unknown key '{key}'", where=where, allowed=list(hints), fix=nearest(key, hints)
        )
    return hints[key]


def _optional(annotation: Any) -> tuple[Any, bool]:
    """The annotation without None, and whether None was in it."""
    if get_origin(annotation) in (Union, types.UnionType):
        (inner,) = [a for a in get_args(annotation) if a is not type(None)]
        return inner, True
    return annotation, False


def _parsed(text: str, annotation: Any, where: str) -> Any:
    """The value that an override's text stands for; `_checked` judges it."""
    annotation, optional = _optional(annotation)
    if optional and text.lower() in ("none", "null"):
        return None
    if get_origin(annotation) is tuple:
        parts = text.strip("()[]").split(",")
        item = get_args(annotation)[0]
        return tuple(_parsed(part.strip(), item, where) for part in parts if part.strip())
    if get_origin(annotation) is Literal:
        return next((a for a in get_args(annotation) if str(a) == text), text)
    if annotation is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if annotation in (int, float):
        for number in (int, float):
            try:
                return number(text.replace("_", ""))
            except ValueError:
                continue
    return text


def _checked(value: Any, annotation: Any, where: str) -> Any:
    """`value` if it fits the annotation; lists become tuples, whole numbers floats."""
    annotation, optional = _optional(annotation)
    if value is None and optional:
        return None
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        if not any(value == a and type(value) is type(a) for a in args):
            raise ConfigError(
                f"{value!r} is not known",
                where=where,
                allowed=args,
                fix=nearest(str(value), map(str, args)),
            )
        return value
    if origin is tuple:
        if isinstance(value, (list, tuple)) and value:
            return tuple(_checked(v, args[0], f"{where}[{i}]") for i, v in enumerate(value))
    elif annotation is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    elif isinstance(value, annotation) and not (annotation is int and isinstance(value, bool)):
        return value
    raise ConfigError(
        f"expected {_TYPE_NAMES.get(origin or annotation, annotation)}, got {value!r}"
        + (" (or none)" if optional else ""),
        where=where,
    )


_TYPE_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "text",
    tuple: "a list of whole numbers, such as 128,128",
}


def _check_limits(value: Any, limits: Mapping[str, Any], where: str) -> None:
    if not limits or value is None:
        return
    for number in value if isinstance(value, tuple) else (value,):
        if not limits["low"] <= number <= limits["high"]:
            raise ConfigError(
                f"{number} is out of range",
                where=where,
                allowed=f"[{limits['low']}, {limits['high']}]",
            )
