"""Converts Python values to recipe overrides: `{"train.epochs": 5}` becomes `train.epochs=5`."""
from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Union

Override = Union[str, Mapping[str, Any]]

# Strings that need no quotes.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_WORDS = {"true", "false", "null", "nan", "inf"}


class Choice:
    """Values for one key of a sweep, created by `choice(a, b)`."""

    def __init__(self, values: Iterable[Any]):
        self.values = tuple(values)
        if not self.values:
            raise ValueError("choice() needs at least one value")

    def __repr__(self) -> str:
        return f"choice({', '.join(map(repr, self.values))})"


def choice(*values: Any) -> Choice:
    """The values of a key in a sweep: `retort.sweep("quickstart", seed=retort.choice(1, 2))`."""
    return Choice(values)


def rendered(overrides: Iterable[Override], values: Mapping[str, Any]) -> list[str]:
    """Overrides in command-line form: strings unchanged, then the values of mappings and keywords."""
    words = []
    for override in overrides:
        if isinstance(override, str):
            words.append(override)
        elif isinstance(override, Mapping):
            words += [_override(key, value) for key, value in override.items()]
        else:
            raise TypeError(f"an override must be a string such as 'train.epochs=5' or a mapping, not {override!r}")
    return words + [_override(key, value) for key, value in values.items()]


def _override(key: str, value: Any) -> str:
    if not isinstance(key, str) or not key or "=" in key:
        raise ValueError(f"{key!r} is not a key")
    return f"{key}={_swept(key, value)}"


def _swept(key: str, value: Any) -> str:
    if isinstance(value, Choice):
        return f"choice({','.join(_value(key, one) for one in value.values)})"
    if isinstance(value, range):
        return f"range({value.start},{value.stop},{value.step})"
    return _value(key, value)


def plain_value(key: str, value: Any) -> Any:
    """Converts `value` to a type that recipes can contain: None, bool, int, float, str, list or dict."""
    if value is None or isinstance(value, (bool, int, float, str, list, tuple, Mapping)):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if hasattr(value, "tolist"):  # an array, a tensor or a number from numpy or torch
        return value.tolist()
    raise TypeError(f"{key}: a recipe cannot contain a {type(value).__name__}")


def _value(key: str, value: Any) -> str:
    value = plain_value(key, value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return _text(value, _PLAIN)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key, name)}:{_value(key, one)}" for name, one in value.items()) + "}"
    return "[" + ",".join(_value(key, one) for one in value) + "]"


def _key(key: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{key}: the keys of a mapping must be strings, not {name!r}")
    return _text(name, _PLAIN_KEY)


def _text(text: str, plain: re.Pattern[str]) -> str:
    if "\0" in text:
        raise ValueError("a string in an override cannot contain a null character")
    if plain.fullmatch(text) and text.lower() not in _WORDS:
        return text
    # Backslashes are doubled before a quote and at the end; elsewhere they are kept.
    return "'" + re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), text) + "'"
