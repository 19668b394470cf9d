"""Strict reading of YAML mappings: each key is asked for once, and what is left over is an error.

with Fields(mapping, where="ur5e.yaml:joints[0]") as f:
    name = f.string("name")
    low, high = f.numbers("position_rad", length=2)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import yaml

from .errors import ConfigError, nearest

_REQUIRED: Any = object()


class _UniqueKeyLoader(yaml.SafeLoader):
    """safe_load that refuses a doubled key, which plain YAML silently lets win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (str, int, float)) and key in seen:
                mark = key_node.start_mark
                raise ConfigError(
                    f"key '{key}' appears twice",
                    where=f"{mark.name}:{mark.line + 1}",
                    fix="keep one of the two",
                )
            if isinstance(key, (str, int, float)):
                seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML text with the safe loader; errors name `where`."""
    loader = _UniqueKeyLoader(text)
    loader.name = where
    try:
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {error}", where=where) from error
    finally:
        loader.dispose()


def read_text(path: str | Path) -> str:
    """Read a UTF-8 text file; a missing or binary file is a ConfigError."""
    path = Path(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        siblings = sorted(p.name for p in path.parent.glob("*")) if path.parent.is_dir() else []
        raise ConfigError("no such file", where=str(path), allowed=siblings) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from error


class Fields:
    """A mapping whose keys are consumed; leaving the `with` block with unread keys is an error."""

    def __init__(self, mapping: Any, where: str) -> None:
        if not isinstance(mapping, Mapping):
            raise ConfigError(
                f"expected a mapping, got {type(mapping).__name__}", where=where or "document"
            )
        self._map, self.where = mapping, where
        self._asked: dict[str, None] = {}  # a set that keeps the order

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        for key in self._map:
            if key not in self._asked:
                raise ConfigError(
                    f"unknown key '{key}'",
                    where=self.path(str(key)),
                    allowed=list(self._asked),
                    fix=nearest(str(key), self._asked) or "remove it",
                )

    def path(self, key: str) -> str:
        """Dotted path of `key`."""
        return f"{self.where}.{key}"

    def has(self, key: str) -> bool:
        """Whether the document gives `key` (and not null)."""
        self._asked[key] = None
        return self._map.get(key) is not None

    def fail(self, key: str, what: str, *, allowed: Any = (), fix: str = "") -> NoReturn:
        """Raise a ConfigError at `key`."""
        raise ConfigError(what, where=self.path(key), allowed=allowed, fix=fix)

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """The raw value; without a default the key is required."""
        self._asked[key] = None
        if key in self._map and self._map[key] is not None:
            return self._map[key]
        if default is _REQUIRED:
            close = nearest(key, [k for k in self._map if k not in self._asked])
            self.fail(key, "missing", fix=close or f"add '{key}:'")
        return default

    def string(self, key: str, default: Any = _REQUIRED) -> str:
        """A non-empty string."""
        value = self.get(key, default)
        if value is default:
            return value
        if not isinstance(value, str) or not value:
            self.fail(key, f"expected a non-empty string, got {value!r}")
        return value

    def choice(self, key: str, allowed: Sequence[str], default: Any = _REQUIRED) -> str:
        """One of `allowed`."""
        value = self.get(key, default)
        if value is not default and value not in allowed:
            self.fail(
                key, f"{value!r} is not known", allowed=allowed, fix=nearest(str(value), allowed)
            )
        return value

    def number(
        self,
        key: str,
        default: Any = _REQUIRED,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        positive: bool = False,
    ) -> float:
        """A finite number in [low, high]."""
        value = self.get(key, default)
        if value is default:
            return value
        return self._number(key, value, low, high, positive)

    def integer(self, key: str, default: Any = _REQUIRED, *, low: int = 0) -> int:
        """A whole number ≥ low."""
        value = self.get(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            self.fail(key, f"expected a whole number ≥ {low}, got {value!r}")
        return value

    def boolean(self, key: str, default: Any = _REQUIRED) -> bool:
        """true or false."""
        value = self.get(key, default)
        if value is not default and not isinstance(value, bool):
            self.fail(key, f"expected true or false, got {value!r}")
        return value

    def strings(self, key: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """A non-empty list of distinct strings."""
        value = self.get(key, default)
        if value is default:
            return value
        if not isinstance(value, list) or not value:
            self.fail(key, f"expected a non-empty list of names, got {value!r}")
        for i, item in enumerate(value):
            if not isinstance(item, str) or not item:
                self.fail(f"{key}[{i}]", f"expected a name, got {item!r}")
            if item in value[:i]:
                self.fail(f"{key}[{i}]", f"'{item}' appears twice", fix="keep one of the two")
        return tuple(value)

    def numbers(
        self,
        key: str,
        default: Any = _REQUIRED,
        *,
        length: int,
        broadcast: bool = False,
        positive: bool = False,
    ) -> tuple[float, ...]:
        """A list of `length` finite numbers; with `broadcast` one number stands for all."""
        value = self.get(key, default)
        if value is default:
            return value
        if broadcast and not isinstance(value, list):
            value = [value] * length
        if not isinstance(value, list) or len(value) != length:
            got = f"{len(value)} values" if isinstance(value, list) else repr(value)
            self.fail(key, f"expected {length} numbers, got {got}")
        return tuple(
            self._number(f"{key}[{i}]", v, -math.inf, math.inf, positive)
            for i, v in enumerate(value)
        )

    def child(self, key: str, default: Any = _REQUIRED) -> Fields:
        """The mapping under `key`."""
        return Fields(self.get(key, default), self.path(key))

    def children(self, key: str, default: Any = _REQUIRED) -> list[Fields]:
        """The mappings in the list under `key`."""
        value = self.get(key, default)
        if not isinstance(value, (list, tuple)):
            self.fail(key, f"expected a list, got {type(value).__name__}")
        return [Fields(item, f"{self.path(key)}[{i}]") for i, item in enumerate(value)]

    def _number(self, key: str, value: Any, low: float, high: float, positive: bool) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            hint = "write 1.0e-3 with the dot" if isinstance(value, str) else ""
            self.fail(key, f"expected a number, got {value!r}", fix=hint)
        if not math.isfinite(value):
            self.fail(key, f"must be finite, got {value!r}")
        if positive and value <= 0:
            self.fail(key, f"must be > 0, got {value!r}")
        if not low <= value <= high:
            self.fail(key, f"{value!r} is out of range", allowed=f"[{low}, {high}]")
        return float(value)
