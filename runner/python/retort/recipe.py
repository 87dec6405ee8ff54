"""A recipe as the program takes it: a name, a file, or a mapping that becomes one."""
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

# What YAML takes for the end of a line, and what it refuses as it is.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


@contextlib.contextmanager
def recipe_word(recipe: Recipe) -> Iterator[tuple[str, str | None]]:
    """The recipe's name or file, and that file again if it is a temporary one, which exists inside `with`."""
    if not isinstance(recipe, Mapping):
        yield os.fspath(recipe), None
        return
    with tempfile.TemporaryDirectory(prefix="retort-") as folder:
        file = pathlib.Path(folder, "recipe.yaml")
        file.write_text(yaml_text("the recipe", recipe), encoding="utf-8")
        yield str(file), str(file)


def yaml_text(key: str, value: Any) -> str:
    """JSON, which is YAML, but for numbers that JSON does not know."""
    value = plain_value(key, value)
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, str):
        return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"{key}: the keys of a mapping are texts, not {name!r}")
        return "{" + ", ".join(f"{yaml_text(name, name)}: {yaml_text(name, one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml_text(key, one) for one in value) + "]"
    return json.dumps(value)
