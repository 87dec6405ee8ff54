"""Functions for recipes and for folders of runs."""
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Union

from .memory_plan import Plan, node_plan
from .overrides import Override, rendered
from .program import Answer, call, flags, number, reuse_flag
from .progress import progress_for
from .recipe import Recipe, recipe_word
from .run_folder import Path, Run, folder_word, run_of
from .sweep_folder import Sweep, sweep_of
from .table import Table

Folders = Union[Path, Iterable[Path]]


@dataclass(frozen=True)
class Validation:
    """A valid recipe."""

    name: str
    file: str | None  # None: the recipe was a mapping
    stages: int
    nodes: int  # including those of foreach


class RunRow(TypedDict):
    """A run in the list returned by `runs()`."""

    run: str  # its folder
    recipe: str
    status: str  # also "incomplete" or "damaged", if its record is
    started: str
    seconds: float
    device: str
    smoke: bool
    tags: list[str]
    source: str | None  # for an evaluation: the folder of the evaluated run
    metric: str | None  # the most informative metric
    value: float | None
    problem: str | None  # which part of its record is damaged
    values: dict[str, Any]  # the settings that the filter and sort use, by key


def run(
    recipe: Recipe,
    /,
    *overrides: Override,
    folder: Path | None = None,
    smoke: bool = False,
    only: str | None = None,
    reuse: bool | None = None,
    strict: bool = False,
    config_dir: Folders = (),
    progress: bool | None = None,
    **values: Any,
) -> Run:
    """Runs a recipe: a name, a file or a mapping. `run("classify", {"data.root": "photos"}, epochs=20)`."""
    options = [*flags(smoke=smoke, only=only, strict=strict, config_dir=_folders(config_dir)), *reuse_flag(reuse)]
    words = [*rendered(overrides, values), *folder_word(folder)]
    return run_of(_call_with_recipe("run", options, recipe, words, progress))


def sweep(
    recipe: Recipe,
    /,
    *overrides: Override,
    folder: Path | None = None,
    slots: int | str | None = None,
    retries: int | None = None,
    timeout: int | None = None,
    fail_fast: bool = False,
    metric: str | None = None,
    reuse: bool | None = None,
    strict: bool = False,
    config_dir: Folders = (),
    progress: bool | None = None,
    **values: Any,
) -> Sweep:
    """Runs a recipe for every combination of values: `sweep("classify", seed=range(3), lr=choice(1e-3, 1e-4))`."""
    named = dict(slots=slots, retries=retries, timeout=timeout, fail_fast=fail_fast, metric=metric, strict=strict)
    options = [*flags(**named, config_dir=_folders(config_dir)), *reuse_flag(reuse)]
    words = rendered(overrides, values) + (rendered([{"sweep.dir": os.fspath(folder)}], {}) if folder is not None else [])
    return sweep_of(_call_with_recipe("sweep", options, recipe, words, progress))


def plan(
    recipe: Recipe,
    /,
    *overrides: Override,
    budget: str | None = None,
    gpu: str | None = None,
    only: str | None = None,
    reuse: bool | None = None,
    strict: bool = False,
    config_dir: Folders = (),
    **values: Any,
) -> Plan:
    """Plans a run's memory without running it. A plan that does not fit is returned rather than raised."""
    options = [*flags(budget=budget, gpu=gpu, only=only, strict=strict, config_dir=_folders(config_dir)), *reuse_flag(reuse)]
    answer = _call_with_recipe("plan", options, recipe, rendered(overrides, values), False)
    return Plan(tuple(map(node_plan, answer.check_result()["plans"])), tuple(answer.errors))


def validate(
    recipe: Recipe, /, *overrides: Override, strict: bool = False, config_dir: Folders = (), **values: Any
) -> Validation:
    """Checks a recipe without running it. Raises RecipeError or MissingError with all errors."""
    options = flags(strict=strict, config_dir=_folders(config_dir))
    result = _call_with_recipe("validate", options, recipe, rendered(overrides, values), False).check()
    file = None if isinstance(recipe, Mapping) else result["file"]
    return Validation(result["name"], file, result["stages"], result["nodes"])


def runs(
    filter: str | None = None, *, folders: Folders = (), sort: str | None = None, reverse: bool = False
) -> Table[RunRow]:
    """Lists the runs in `folders` (by default, outputs and multirun): `runs("accuracy>0.7 & model.kind=lora")`."""
    words = ["ls", *_folders(folders), *([filter] if filter else [])]
    listed: list[RunRow] = call("runs", flags(sort=sort, reverse=reverse), words).check()["runs"]
    for row in listed:
        row["run"] = os.path.abspath(row["run"])
        row["value"] = number(row["value"])
    return Table(listed, RunRow.__annotations__)


def _call_with_recipe(verb: str, options: list[str], recipe: Recipe, words: list[str], progress: bool | None) -> Answer:
    with recipe_word(recipe) as (word, temporary):
        return call(verb, options, [word, *words], progress_for(progress), temporary)


def _folders(folders: Folders) -> list[str]:
    return [os.fspath(folders)] if isinstance(folders, (str, os.PathLike)) else [os.fspath(folder) for folder in folders]
