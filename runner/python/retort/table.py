"""A list of rows that converts to a pandas DataFrame."""
from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


class Table(list[Row], Generic[Row]):
    """A list of rows, each a dict with the same keys. Notebooks show it as a DataFrame if pandas is installed."""

    def __init__(self, rows: Iterable[Row] = (), columns: Iterable[str] = ()):
        super().__init__(rows)
        self.columns = tuple(columns) or tuple(self[0] if self else ())  # type: ignore[arg-type]

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame. Raises ModuleNotFoundError without pandas."""
        return import_pandas().DataFrame(list(self), columns=list(self.columns))

    def _repr_html_(self) -> str | None:
        html: str | None = self.to_pandas()._repr_html_() if has_pandas() else None
        return html


def has_pandas() -> bool:
    return importlib.util.find_spec("pandas") is not None


def import_pandas() -> Any:
    if not has_pandas():
        raise ModuleNotFoundError("to_pandas() needs pandas: pip install pandas", name="pandas")
    return importlib.import_module("pandas")
