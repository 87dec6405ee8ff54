"""Exceptions that contain the program's diagnostics."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run_folder import Run
    from .sweep_folder import Sweep


def _place(file: str | None, line: int, column: int) -> str:
    if not file:
        return ""
    return f"{file}:{line}:{column}: " if line else f"{file}: "


@dataclass(frozen=True)
class Note:
    """A related location, such as "first defined here"."""

    message: str
    file: str | None
    line: int  # counted from 1; 0: none
    column: int

    def __str__(self) -> str:
        return f"{_place(self.file, self.line, self.column)}note: {self.message}"


@dataclass(frozen=True)
class Diagnostic:
    """An error or warning and its location. `retort explain CODE` explains it."""

    severity: str  # error or warning
    code: str  # such as E0203
    message: str
    pointer: str  # the location in the recipe, as a JSON pointer; empty: none
    file: str | None  # the file or override of the location; None: none
    line: int  # counted from 1; 0: none
    column: int
    help: str  # what to do; empty: no advice
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        """The text that the program prints, without the quoted line."""
        head = f"{_place(self.file, self.line, self.column)}{self.severity}[{self.code}]: {self.message}"
        lines = [head + (f" [{self.pointer}]" if self.pointer else "")]
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines + [f"  {note}" for note in self.notes])


def diagnostic_of(json: dict[str, Any], temporary: str | None = None) -> Diagnostic:
    """Converts the JSON of a diagnostic. Omits locations in the file `temporary`, which the caller has never seen."""

    def place(item: dict[str, Any]) -> tuple[str | None, int, int]:
        return (None, 0, 0) if item["file"] == temporary else (item["file"], item["line"], item["column"])

    notes = tuple(Note(note["message"], *place(note)) for note in json["notes"])
    return Diagnostic(
        json["severity"], json["code"], json["message"], json["pointer"], *place(json), json["help"], notes
    )


class RetortWarning(UserWarning):
    """A warning from the program."""


class RetortError(Exception):
    """The program exited with an error. Each exit code has its own class."""

    def __init__(
        self,
        message: str,
        exit_code: int = 0,
        diagnostics: Sequence[Diagnostic] = (),
        run: Run | None = None,
        sweep: Sweep | None = None,
    ):
        super().__init__(message)
        self.exit_code = exit_code  # 0: an error of this package
        self.diagnostics = tuple(diagnostics)  # the errors, in the order in which the program reports them
        self.run = run  # the run, if it has left a record
        self.sweep = sweep


class ProgramError(RetortError):
    """The program cannot be found or started, was killed, or has a different version."""


class RunFailed(RetortError):
    """1: the run failed."""


class TrialsFailed(RetortError):
    """3: some trials of a sweep failed."""


class UsageError(RetortError):
    """64: the command line is invalid, for example its filter."""


class DataError(RetortError):
    """65: the data or a record is damaged or unsuitable."""


class MissingError(RetortError):
    """66: a file, folder, recipe or run is missing."""


class DeviceError(RetortError):
    """69: the device is not available."""


class InternalError(RetortError):
    """70: a bug in Retort."""


class OutputError(RetortError):
    """73, 74: a file or folder cannot be created or written."""


class RunStopped(RetortError):
    """75, 130, 143: an external signal stopped the run; it was saved if `exit_code` is 75."""


class RecipeError(RetortError):
    """78: the recipe has errors."""


class Interrupted(KeyboardInterrupt):
    """Raised when a KeyboardInterrupt has stopped a run or sweep. `run.resume()` continues it."""

    def __init__(self, message: str, run: Run | None = None, sweep: Sweep | None = None):
        super().__init__(message)
        self.run = run
        self.sweep = sweep


BY_EXIT_CODE: dict[int, type[RetortError]] = {
    1: RunFailed,
    3: TrialsFailed,
    64: UsageError,
    65: DataError,
    66: MissingError,
    69: DeviceError,
    70: InternalError,
    73: OutputError,
    74: OutputError,
    75: RunStopped,
    78: RecipeError,
    130: RunStopped,
    143: RunStopped,
}
