"""Reads a sweep's folder: its trials and their results."""
from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any, Union

from .errors import Interrupted
from .program import Answer, call, flags, number
from .progress import progress_for
from .run_folder import Run
from .table import Table

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep."""

    number: int  # counted from 0
    state: str  # waiting, running, finished, failed or interrupted
    overrides: tuple[str, ...]
    attempts: int
    seconds: float
    metrics: dict[str, float]  # for validation metrics, the value for the kept weights
    reason: str | None  # why the last attempt failed
    run: Run


@dataclass(frozen=True)
class Objective:
    """The metric by which trials are compared."""

    metric: str
    best: str  # largest or smallest
    of_test_data: bool


@dataclass(frozen=True)
class Means:
    """The mean of the objective over trials that share settings, with a 95% interval."""

    settings: str
    trials: int
    mean: float
    half_interval: float | None


class Sweep:
    """A sweep in a folder. Files are read on each access, so results are always current."""

    def __init__(self, folder: Path):
        self.folder = pathlib.Path(os.path.abspath(folder))

    def __repr__(self) -> str:
        return f"Sweep({str(self.folder)!r})"

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(self._trial(trial) for trial in self._shown()["trials"])

    @property
    def best(self) -> Trial | None:
        """The best trial; None if no trial has a result."""
        shown = self._shown()
        return next((self._trial(trial) for trial in shown["trials"] if trial["number"] == shown["best"]), None)

    @property
    def objective(self) -> Objective | None:
        found = self._shown()["objective"]
        return Objective(**found) if found else None

    @property
    def effects(self) -> tuple[Means, ...]:
        """The means over trials, for each value of each key with several values."""
        return self._means("effects")

    @property
    def over_seeds(self) -> tuple[Means, ...]:
        """The means over seeds, if seed is swept."""
        return self._means("over_seeds")

    @property
    def cross_validations(self) -> tuple[dict[str, Any], ...]:
        """The folds and their combined results, if folds.index is swept, as printed by `retort sweep show --json`."""
        return tuple(self._shown()["cross_validations"])

    def table(self) -> Table[dict[str, Any]]:
        """Returns a row for each trial, with number, state, overrides, seconds and all metrics."""
        trials = self.trials
        metrics = sorted({name for trial in trials for name in trial.metrics})
        return Table(
            {
                "number": trial.number,
                "state": trial.state,
                "overrides": " ".join(trial.overrides),
                "seconds": trial.seconds,
                **{name: trial.metrics.get(name) for name in metrics},
            }
            for trial in trials
        )

    def resume(self, *, slots: int | str | None = None, force: bool = False, progress: bool | None = None) -> Sweep:
        """Continues interrupted trials and runs the remaining ones."""
        options = flags(slots=slots, force=force)
        return sweep_of(call("sweep", options, ["resume", str(self.folder)], progress_for(progress)))

    def _shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = call("sweep", [], ["show", str(self.folder)]).check_result()
        return shown

    def _means(self, name: str) -> tuple[Means, ...]:
        return tuple(
            Means(one["settings"], one["trials"], number(one["mean"]), number(one["half_interval"]))
            for one in self._shown()[name]
        )

    def _trial(self, json: dict[str, Any]) -> Trial:
        return Trial(
            json["number"],
            json["state"],
            tuple(json["overrides"]),
            json["attempts"],
            json["seconds"],
            {name: number(value) for name, value in json["metrics"].items()},
            json.get("reason"),
            Run(self.folder / str(json["number"])),
        )


def sweep_of(answer: Answer) -> Sweep:
    """Returns the sweep if all of its trials finished. Otherwise raises, with the sweep if there is one."""
    sweep = Sweep(answer.result["folder"]) if answer.result else None
    if answer.is_interrupted:
        raise Interrupted(f"stopped; {sweep!r}.resume() continues it" if sweep else "stopped", sweep=sweep)
    answer.check(sweep=sweep)
    assert sweep is not None
    return sweep
