"""Passes a recipe to the program: a name, a file, or a mapping (which is written to a file)."""
from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Union

from .overrides import plain_value

Recipe = Union[str, "os.PathLike[str]", Mapping[str, Any]]

# Characters that YAML treats as line breaks or does not allow unescaped.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


@contextlib.contextmanager
def recipe_word(recipe: Recipe) -> Iterator[tuple[str, str | None]]:
    """Yields the recipe's name or file, and the file's path if it is temporary; it then exists only inside the `with` block."""
    if not isinstance(recipe, Mapping):
        yield os.fspath(recipe), None
        return
    with tempfile.TemporaryDirectory(prefix="retort-") as folder:
        file = pathlib.Path(folder, "recipe.yaml")
        file.write_text(yaml_text("the recipe", recipe), encoding="utf-8")
        yield str(file), str(file)


def yaml_text(key: str, value: Any) -> str:
    """Converts `value` to JSON, which is valid YAML; numbers that JSON lacks are written as in YAML."""
    value = plain_value(key, value)
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, str):
        return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"{key}: the keys of a mapping must be strings, not {name!r}")
        return "{" + ", ".join(f"{yaml_text(name, name)}: {yaml_text(name, one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml_text(key, one) for one in value) + "]"
    return json.dumps(value)
