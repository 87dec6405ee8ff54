"""The program `retort`: where it is, and what it answers."""
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

# The documents of --json that this package reads. A higher number would be misunderstood.
KNOWN_SCHEMAS = frozenset(
    ["errors/1", "export/1", "plan/1", "predict/1", "run/1", "runs_ls/1", "runs_show/1", "sweep_results/1", "validate/1"]
)


def find_program() -> str:
    """The path of `retort`: the variable RETORT, else the one installed with this package, else from PATH."""
    if chosen := os.environ.get("RETORT"):
        if found := shutil.which(chosen):
            return found
        raise ProgramError(f"the variable RETORT is {chosen!r}, which is no program")
    # Of lib/python3.x/site-packages/retort or share/retort/python/retort, the folder that has bin/; and pip's --target.
    above = pathlib.Path(__file__).parents
    for prefix in (above[min(4, len(above) - 1)], above[1], pathlib.Path(sys.prefix)):
        if os.access(prefix / "bin/retort", os.X_OK):
            return str(prefix / "bin/retort")
    if found := shutil.which("retort"):
        return found
    raise ProgramError(
        f"the program retort is neither in {sys.prefix}/bin nor on PATH: install the wheel, or set the variable RETORT to its path"
    )


# Endings that the program does not count as errors.
_WITHOUT_ERRORS = {
    3: "some trials failed; the `reason` of each says why",
    75: "a signal stopped it after a save; `resume()` continues",
}


@dataclass
class Answer:
    """What the program printed, and how it ended."""

    exit_code: int
    result: Any = None  # None: there are only errors
    errors: list[Diagnostic] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)  # the lines before the document, of `predict`
    is_interrupted: bool = False  # by KeyboardInterrupt

    def check(self, run: Run | None = None, sweep: Sweep | None = None) -> Any:
        """The result, if all went well. Raises the error of the exit code otherwise."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        if self.exit_code == 0:
            return self.result
        kind = BY_EXIT_CODE.get(self.exit_code, RetortError)
        message = "\n".join(map(str, self.errors)) or _WITHOUT_ERRORS.get(self.exit_code)
        raise kind(message or f"retort ended with {self.exit_code}", self.exit_code, self.errors, run, sweep)

    def check_result(self) -> Any:
        """The result, whatever errors come with it."""
        return self.check() if self.result is None or self.is_interrupted else self.result


def flags(**named: Any) -> list[str]:
    """`only="train", smoke=True, gpu=None` as --only=train --smoke."""
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
    """Runs `retort VERB`. `words` are never taken for flags. Warnings become Python's."""
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
    """Waits for the end, and says whether the user has interrupted it.

    The first interrupt asks for a save by TERM. A terminal has sent its own INT to both, and a second INT would end the
    run at once: that is for the second interrupt.
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
        raise ProgramError(f"retort ended with {code}, and its answer cannot be read: {error}\n{said}") from error
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
    """How many frames on the stack, before the user's, are of this package; the first is the caller's."""
    count = 0
    frame: types.FrameType | None = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").split(".")[0] == __name__.split(".")[0]:
        count, frame = count + 1, frame.f_back
    return count


def _documents(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document, and the objects in lines before it."""
    if text.startswith("{\n"):
        return json.loads(text), []
    lines = [json.loads(line) for line in text.split("\n") if line]
    if not lines:
        raise ValueError("it printed nothing")
    return lines[-1], lines[:-1]


def number(value: Any) -> Any:
    """A number, of which JSON knows nan and the infinities as texts."""
    return float(value) if value in ("nan", "inf", "-inf") else value
