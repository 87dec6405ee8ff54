"""Where the progress of a run is shown."""
from __future__ import annotations

import sys
from typing import IO, Any

COLUMNS = 120  # of a notebook's line


class Progress:
    """Takes the lines that the program prints while it works. This one shows nothing."""

    inherits: IO[Any] | None = None  # a stream that the program writes to itself

    def show(self, line: str) -> None:
        pass

    def close(self) -> None:
        pass


class Terminal(Progress):
    """The program draws its own line, with the seconds left."""

    def __init__(self) -> None:
        self.inherits = sys.stderr


class Lines(Progress):
    def show(self, line: str) -> None:
        print(line, file=sys.stderr)


class OneLine(Progress):
    """Each line in the place of the one before, as a notebook does after a carriage return."""

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
    """True: shown; False: not; None: shown in a terminal and in a notebook."""
    if wanted is False or sys.stderr is None:
        return Progress()
    if type(sys.stderr).__module__.startswith("ipykernel."):
        return OneLine()
    if sys.stderr.isatty():
        return Terminal()
    return Lines() if wanted else Progress()
