"""Reads the result files in a run's folder."""
from __future__ import annotations

import csv
import io
import json
import pathlib
from dataclasses import dataclass
from typing import Any, TypedDict

from .errors import DataError, Diagnostic, MissingError
from .table import Table, import_pandas

# Columns of predictions.csv that are always strings. Other columns contain numbers, or true and false.
_TEXTS = {"name", "label", "predicted", "grade", "prediction"}
_BOOLS = {"true": True, "false": False}


class MetricPoint(TypedDict):
    """The value of a node's metric after a step."""

    node: str
    name: str
    value: float
    step: int
    time: float  # seconds since the start of the run


@dataclass(frozen=True)
class Confusion:
    """Sample counts, with a row for each true class and a column for each predicted class."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame. Raises ModuleNotFoundError without pandas."""
        pandas = import_pandas()
        return pandas.DataFrame(
            [list(row) for row in self.counts],
            index=pandas.Index(self.classes, name="label"),
            columns=pandas.Index(self.classes, name="predicted"),
        )


def read_history(file: pathlib.Path) -> Table[MetricPoint]:
    rows: list[MetricPoint] = []
    lines = _read(file).split("\n")
    for at, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            item = json.loads(line)
            rows.append(
                {
                    "node": str(item["node"]),
                    "name": str(item["name"]),
                    "value": float(item["value"]),
                    "step": int(item["step"]),
                    "time": float(item["time"]),
                }
            )
        except (ValueError, KeyError, TypeError):
            if at == len(lines):  # the run was killed while writing the line
                continue
            raise damaged(file, f"line {at} is not a metric") from None
    return Table(rows, MetricPoint.__annotations__)


def read_predictions(file: pathlib.Path) -> Table[dict[str, Any]]:
    head, *lines = _csv_lines(file)
    rows = []
    for line in lines:
        rows.append({column: _cell(column, text) for column, text in zip(head, line)})
    return Table(rows, head)


def read_confusion(file: pathlib.Path) -> Confusion:
    head, *lines = _csv_lines(file)
    classes = tuple(head[1:])
    if tuple(line[0] for line in lines) != classes:
        raise damaged(file, "its rows and columns have different classes")
    try:
        return Confusion(classes, tuple(tuple(int(cell) for cell in line[1:]) for line in lines))
    except ValueError:
        raise damaged(file, "a cell is not a number") from None


def missing(message: str, help: str) -> MissingError:
    told = Diagnostic("error", "E0820", message, "", None, 0, 0, help)
    return MissingError(str(told), 66, [told])


def damaged(file: pathlib.Path, why: str) -> DataError:
    told = Diagnostic("error", "E0821", f"'{file}' cannot be read: {why}", "", None, 0, 0, "`resume()` computes it again")
    return DataError(str(told), 65, [told])


def _read(file: pathlib.Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "surrogateescape")  # file names need not be UTF-8
    except FileNotFoundError:
        raise missing(f"there is no '{file}'", "run or resume it first") from None
    except OSError as error:
        raise damaged(file, str(error.strerror)) from None


def _csv_lines(file: pathlib.Path) -> list[list[str]]:
    try:
        lines = list(csv.reader(io.StringIO(_read(file), newline=""), strict=True))
    except csv.Error as error:
        raise damaged(file, str(error)) from None
    if not lines or len(lines[0]) < 2:
        raise damaged(file, "it has no columns")
    for line in lines:
        if len(line) != len(lines[0]):
            raise damaged(file, f"a line has {len(line)} columns, not {len(lines[0])}")
    return lines


def _cell(column: str, text: str) -> Any:
    if column in _TEXTS or column.startswith("top_"):
        return text
    if text in _BOOLS:
        return _BOOLS[text]
    try:
        return float(text)
    except ValueError:
        return text


