"""Finds and calls the `retort` program and reads its output."""
from __future__ import annotations

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import BY_EXIT_CODE, Diagnostic, ProgramError, RetortError, RetortWarning, diagnostic_of
from .progress import Progress

if TYPE_CHECKING:
    from .run_folder import Run
    from .sweep_folder import Sweep

# The --json documents, with versions, that this package can read.
KNOWN_SCHEMAS = frozenset(
    ["errors/1", "export/1", "plan/1", "predict/1", "run/1", "runs_ls/1", "runs_show/1", "sweep_results/1", "validate/1"]
)


def find_program() -> str:
    """Returns the path of `retort`: from the RETORT variable, else as installed with this package, else from PATH."""
    if chosen := os.environ.get("RETORT"):
        if found := shutil.which(chosen):
            return found
        raise ProgramError(f"the RETORT variable is {chosen!r}, which is not a program")
    # The folder that contains bin/ above lib/python3.x/site-packages/retort or share/retort/python/retort, or the folder
    # of pip --target.
    above = pathlib.Path(__file__).parents
    for prefix in (above[min(4, len(above) - 1)], above[1], pathlib.Path(sys.prefix)):
        if os.access(prefix / "bin/retort", os.X_OK):
            return str(prefix / "bin/retort")
    if found := shutil.which("retort"):
        return found
    raise ProgramError(
        f"the retort program is neither in {sys.prefix}/bin nor on PATH: install the wheel, or set the RETORT variable to its path"
    )


# Exit codes without corresponding errors in the output.
_WITHOUT_ERRORS = {
    3: "some trials failed; see the `reason` of each",
    75: "a signal stopped the run after it was saved; `resume()` continues it",
}


@dataclass
class Answer:
    """The program's output and exit code."""

    exit_code: int
    result: Any = None  # None: only errors
    errors: list[Diagnostic] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)  # for `predict`: the lines before the document
    is_interrupted: bool = False  # by KeyboardInterrupt

    def check(self, run: Run | None = None, sweep: Sweep | None = None) -> Any:
        """Returns the result of a successful call. Otherwise raises the error for the exit code."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        if self.exit_code == 0:
            return self.result
        kind = BY_EXIT_CODE.get(self.exit_code, RetortError)
        message = "\n".join(map(str, self.errors)) or _WITHOUT_ERRORS.get(self.exit_code)
        raise kind(message or f"retort exited with code {self.exit_code}", self.exit_code, self.errors, run, sweep)

    def check_result(self) -> Any:
        """Returns the result even if there are errors; raises only if there is no result."""
        return self.check() if self.result is None or self.is_interrupted else self.result


def flags(**named: Any) -> list[str]:
    """Converts `only="train", smoke=True, gpu=None` to --only=train --smoke."""
    words = []
    for name, value in named.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words += [f"{flag}={os.fspath(one)}" for one in value]
        elif value is not None and value is not False:
            words.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return words


def reuse_flag(reuse: bool | None) -> list[str]:
    return [] if reuse is None else ["--reuse" if reuse else "--no-reuse"]


def call(
    verb: str, options: Sequence[str], words: Sequence[str], progress: Progress | None = None, temporary: str | None = None
) -> Answer:
    """Runs `retort VERB`. `words` are never parsed as flags. Warnings become Python warnings."""
    command = [find_program(), verb, "--json", *options, "--", *words]
    shown = progress or Progress()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=shown.inherits or subprocess.PIPE
            )
        except (OSError, ValueError) as error:
            raise ProgramError(f"{command[0]} cannot be started: {error}") from error
        said: collections.deque[str] = collections.deque(maxlen=20)
        try:
            is_interrupted = _follow(process, shown, said)
        finally:
            shown.close()
        output.seek(0)
        text = output.read().decode("utf-8", "surrogateescape")
    answer = _read(text, process.returncode, "\n".join(said), temporary)
    answer.is_interrupted = is_interrupted
    return answer


def _follow(process: subprocess.Popen[bytes], shown: Progress, said: collections.deque[str]) -> bool:
    """Waits until the program exits. Returns True if the user interrupted it.

    On the first interrupt, sends SIGTERM to make the program save: the terminal has sent SIGINT to both processes, and
    another SIGINT would end the run at once. The second interrupt sends SIGINT.
    """
    interrupts = 0
    try:
        while True:
            try:
                for line in process.stderr or ():
                    said.append(line.decode("utf-8", "replace").rstrip("\n"))
                    shown.show(said[-1])
                process.wait()
                return interrupts > 0
            except KeyboardInterrupt:
                interrupts += 1
                process.send_signal(signal.SIGTERM if interrupts == 1 else signal.SIGINT)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        if process.stderr:
            process.stderr.close()


def _read(text: str, code: int, said: str, temporary: str | None) -> Answer:
    if code < 0:
        raise ProgramError(f"retort was killed by {signal.Signals(-code).name}" + (f"\n{said}" if said else ""))
    try:
        document, rows = _documents(text)
        schema = document["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramError(f"retort exited with code {code}, and its output cannot be read: {error}\n{said}") from error
    if schema not in KNOWN_SCHEMAS:
        raise ProgramError(
            f"{find_program()} is retort {document.get('retort')}, which prints {schema}; "
            f"this package reads {', '.join(sorted(KNOWN_SCHEMAS))}: install both from one wheel"
        )
    for warning in document["warnings"]:
        warnings.warn(str(diagnostic_of(warning, temporary)), RetortWarning, stacklevel=_frames_of_package() + 1)
    errors = [diagnostic_of(error, temporary) for error in document.get("errors", [])]
    return Answer(code, document.get("result"), errors, rows)


def _frames_of_package() -> int:
    """Returns the number of stack frames of this package, from the caller up to the user's code."""
    count = 0
    frame: types.FrameType | None = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").split(".")[0] == __name__.split(".")[0]:
        count, frame = count + 1, frame.f_back
    return count


def _documents(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the JSON document and the objects on the lines before it."""
    if text.startswith("{\n"):
        return json.loads(text), []
    lines = [json.loads(line) for line in text.split("\n") if line]
    if not lines:
        raise ValueError("it printed nothing")
    return lines[-1], lines[:-1]


def number(value: Any) -> Any:
    """Converts a JSON value to a number; nan and infinities are strings in JSON."""
    return float(value) if value in ("nan", "inf", "-inf") else value
