"""Shows the progress of a run."""
from __future__ import annotations

import sys
from typing import IO, Any

COLUMNS = 120  # width of a line in a notebook


class Progress:
    """Receives the lines that the program prints while it runs. This class does not show anything."""

    inherits: IO[Any] | None = None  # a stream that the program writes to directly

    def show(self, line: str) -> None:
        pass

    def close(self) -> None:
        pass


class Terminal(Progress):
    """Lets the program draw its own progress line."""

    def __init__(self) -> None:
        self.inherits = sys.stderr


class Lines(Progress):
    def show(self, line: str) -> None:
        print(line, file=sys.stderr)


class OneLine(Progress):
    """Replaces each line with the next one, using a carriage return, which works in notebooks."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, line: str) -> None:
        line = line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"
        print("\r" + line.ljust(self._shown), end="", file=sys.stderr, flush=True)
        self._shown = len(line)

    def close(self) -> None:
        if self._shown:
            print(file=sys.stderr)


def progress_for(wanted: bool | None) -> Progress:
    """True: shows progress; False: does not; None: does so in a terminal or a notebook."""
    if wanted is False or sys.stderr is None:
        return Progress()
    if type(sys.stderr).__module__.startswith("ipykernel."):
        return OneLine()
    if sys.stderr.isatty():
        return Terminal()
    return Lines() if wanted else Progress()
