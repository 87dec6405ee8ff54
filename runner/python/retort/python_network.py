"""Creates a network that was defined in Python, with its trained weights, in this process."""
from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pathlib
import sys
from typing import Any

from .errors import DataError


def has_python_network(recipe: dict[str, Any]) -> bool:
    """True if a stage of the recipe is a model.python."""
    return any(isinstance(stage, dict) and stage.get("kind") == "model.python" for stage in recipe.values())


def load_network(exported: pathlib.Path, run: pathlib.Path, device: str) -> Any:
    """Returns the network of the export in `exported`, a torch.nn.Module in eval mode. Runs its code: the file's text in the record
    of `run`, or the installed module that the entry names."""
    torch = importlib.import_module("torch")
    try:
        load_file = importlib.import_module("safetensors.torch").load_file
    except ImportError as error:
        raise ModuleNotFoundError("Run.model() needs safetensors: pip install safetensors", name="safetensors") from error
    network = json.loads((exported / "network.json").read_text())
    python = json.loads((run / ".retort" / "environment.json").read_text())["python"]
    place, _, names = network["entry"].rpartition(":")
    before = list(sys.path)
    sys.path[:0] = python.get("folders", [])
    try:
        found = _of_file(place, run, python) if place.endswith(".py") else importlib.import_module(place)
        for name in names.split("."):
            found = getattr(found, name)
        with torch.device(device):
            made = found(**network["arguments"])
    finally:
        sys.path[:] = before
    made.load_state_dict(load_file(str(exported / "model.safetensors"), device=device))
    return made.to(device).eval()


def _of_file(place: str, run: pathlib.Path, python: dict[str, Any]) -> Any:
    """Runs the copy of the file `place` in the run's record as a module."""
    written = os.path.normpath(os.path.expanduser(place))
    copies = [entry["copy"] for entry in python["entries"].values() if pathlib.Path(entry["file"]).match(written)]
    spec = importlib.util.spec_from_file_location(pathlib.Path(place).stem, run / ".retort" / "python" / copies[0]) if copies else None
    if spec is None or spec.loader is None:
        raise DataError(f"the record of {run} has no copy of {place}", 65)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)
    spec.loader.exec_module(module)
    return module
