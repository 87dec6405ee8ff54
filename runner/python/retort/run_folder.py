"""Reads the record in a run's folder and uses its weights."""
from __future__ import annotations

import importlib
import os
import pathlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypedDict, Union, cast

from .errors import DataError, Interrupted
from .overrides import Override, rendered
from .program import Answer, call, flags, number
from .progress import progress_for
from .python_network import has_python_network, load_network
from .record import Confusion, MetricPoint, missing, read_confusion, read_history, read_predictions
from .table import Table

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Node:
    """A stage of a run, or one item of its `foreach`."""

    node: str
    state: str  # done, partial or missing
    status: str  # as in summary.json: waiting, running or finished
    seconds: float
    peak_memory_bytes: int
    epoch: int | None  # epochs done in the latest checkpoint
    best: float | None  # the monitored metric of the best checkpoint
    best_epoch: int | None
    missing: str | None  # why a finished node does not count as done


@dataclass(frozen=True)
class Summary:
    """The status, settings and nodes of a run."""

    recipe: str | None  # its name
    status: str  # finished, failed, interrupted, running, worker died; empty without summary.json
    exit: int | None
    started: str
    seconds: float
    smoke: bool
    device: str
    threads: int
    source: str | None  # for an evaluation: the folder of the run that trained the weights
    tags: tuple[str, ...]
    nodes: tuple[Node, ...]
    environment: dict[str, Any]  # versions, processor, input files


@dataclass(frozen=True)
class Export:
    """The result of `Run.export()`."""

    folder: pathlib.Path
    files: tuple[str, ...]
    weights: str | None  # "averaged" or "trained" if trained with train.ema


class ImagePrediction(TypedDict):
    """The prediction for an image. Ensembles add the program's `tied`, `margin`, `votes` and `pairs`; networks with outputs
    that are not class scores add `outputs`, and networks that predict numbers add `values` by target."""

    file: str
    predicted: str | None  # None: the ensemble abstains, or there are no classes
    probability: float | None
    classes: dict[str, float]  # the most likely classes with their probabilities


class Run:
    """A run in a folder. Files are read on each access, so results are always current."""

    def __init__(self, folder: Path):
        self.folder = pathlib.Path(os.path.abspath(folder))

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def __fspath__(self) -> str:
        return str(self.folder)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.folder == self.folder

    def __hash__(self) -> int:
        return hash(self.folder)

    @property
    def summary(self) -> Summary:
        shown = self._shown()
        nodes = tuple(Node(**{**node, "best": number(node["best"])}) for node in shown["nodes"])
        names = ("recipe", "status", "exit", "started", "seconds", "smoke", "device", "threads", "source", "environment")
        return Summary(tags=tuple(shown["tags"]), nodes=nodes, **{name: shown[name] for name in names})

    @property
    def recipe(self) -> dict[str, Any]:
        """The resolved recipe with all defaults."""
        settings: dict[str, Any] = self._shown()["settings"]
        return settings

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric, by name (such as validation/loss), or by node:name if several nodes have it.

        For validation metrics, this is the value for the kept weights.
        """
        points = self._shown()["metrics"]
        names = [point["metric"] for point in points]
        return {
            point["metric"] if names.count(point["metric"]) == 1 else f"{point['node']}:{point['metric']}": number(
                point["value"]
            )
            for point in points
        }

    def history(self, *names: str) -> Table[MetricPoint]:
        """Returns all values of the named metrics, or of all metrics, in the order of measurement."""
        if not (self.folder / "metrics.jsonl").exists():
            self._shown()  # raises an error if this is not a run
        points = read_history(self.folder / "metrics.jsonl")
        return Table((point for point in points if not names or point["name"] in names), points.columns)

    def predictions(self, node: str | None = None) -> Table[dict[str, Any]]:
        """Returns an evaluation's prediction for each sample. `node` selects the evaluation if the run has several."""
        return read_predictions(self._result("predictions.csv", node))

    def confusion(self, node: str | None = None) -> Confusion:
        """Returns the confusion matrix of an evaluation."""
        return read_confusion(self._result("confusion_matrix.csv", node))

    def resume(self, *overrides: Override, force: bool = False, progress: bool | None = None, **values: Any) -> Run:
        """Continues the run. The result is the same as if it had not been interrupted."""
        words = [str(self.folder), *rendered(overrides, values)]
        return run_of(call("resume", flags(force=force), words, progress_for(progress)))

    def evaluate(
        self,
        *overrides: Override,
        folder: Path | None = None,
        checkpoint: Path | None = None,
        weights: str | None = None,
        force: bool = False,
        progress: bool | None = None,
        **values: Any,
    ) -> Run:
        """Evaluates the weights on other data or with other metrics. Returns the evaluation, a new run in `folder`."""
        options = flags(checkpoint=checkpoint, weights=weights, force=force)
        words = [str(self.folder), *rendered(overrides, values), *folder_word(folder)]
        return run_of(call("evaluate", options, words, progress_for(progress)))

    def predict(
        self,
        images: Path | Iterable[Path],
        *,
        top: int = 5,
        device: str | None = None,
        skip_corrupt: bool = False,
        checkpoint: Path | None = None,
        weights: str | None = None,
        flip: str | None = None,
        batch_size: int | None = None,
        support: Path | None = None,
        labels: Iterable[str] = (),
        node: str | None = None,
        progress: bool | None = None,
    ) -> Table[ImagePrediction]:
        """Predicts the classes of images and folders of images. Accepts the options of `retort predict`."""
        files = [images] if isinstance(images, (str, os.PathLike)) else list(images)
        options = flags(
            top=top, skip_corrupt=skip_corrupt, checkpoint=checkpoint, weights=weights, flip=flip, batch_size=batch_size,
            support=support, labels=list(labels), node=node,
        )  # fmt: skip
        words = [str(self.folder), *map(_image_word, files), *([f"device={device}"] if device else [])]
        answer = call("predict", options, words, progress_for(progress))
        try:
            answer.check()
        except DataError:
            if answer.result is None:
                raise  # otherwise, unreadable images were skipped
        return Table(map(_image_prediction, answer.rows), ImagePrediction.__annotations__)

    def export(
        self,
        format: str = "merged",
        *overrides: Override,
        out: Path | None = None,
        checkpoint: Path | None = None,
        weights: str | None = None,
        names: str | None = None,
        head_inside: bool = False,
        node: str | None = None,
    ) -> Export:
        """Exports the network for transformers or timm (`merged`), for peft (`adapter`), or as TorchScript (`torchscript`)."""
        if format not in ("merged", "adapter", "torchscript"):
            raise ValueError(f"the format must be merged, adapter or torchscript, not {format!r}")
        options = flags(out=out, checkpoint=checkpoint, weights=weights, names=names, head_inside=head_inside, node=node)
        words = [str(self.folder), *rendered(overrides, {})]
        result = call("export", ["--" + format, *options], words).check()
        return Export(pathlib.Path(os.path.abspath(result["folder"])), tuple(result["files"]), result.get("weights"))

    def model(
        self, device: str = "cpu", *, checkpoint: Path | None = None, weights: str | None = None, node: str | None = None
    ) -> Any:
        """Returns the network as a torch.nn.Module, from normalized pixels to logits: the network itself if it was defined in
        Python, and otherwise the program of `export("torchscript")`. Running a network's Python code in this process is up to
        the caller, and needs its packages and safetensors.

        Raises ModuleNotFoundError without torch. To train the layers of other networks further, load export("merged") with
        transformers or timm.
        """
        try:
            torch = importlib.import_module("torch")
        except ImportError as error:
            raise ModuleNotFoundError("Run.model() needs torch: pip install torch", name="torch") from error
        with tempfile.TemporaryDirectory(prefix="retort-") as folder:
            is_python = has_python_network(self.recipe)
            made = self.export(
                "merged" if is_python else "torchscript",
                out=os.path.join(folder, "model"), checkpoint=checkpoint, weights=weights, node=node,
            )  # fmt: skip
            if is_python:
                return load_network(made.folder, self.folder, device)
            return torch.jit.load(str(made.folder / "model.pt"), map_location=device)

    def _shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = call("runs", [], ["show", str(self.folder)]).check()
        return shown

    def _result(self, name: str, node: str | None) -> pathlib.Path:
        """Returns the path of an evaluation's file `name`."""
        if node is not None:
            return self.folder / "nodes" / node / name
        found = sorted(self.folder.glob(f"nodes/*/{name}"))
        if len(found) > 1:
            raise ValueError(f"several nodes have {name}: set node to one of {', '.join(file.parent.name for file in found)}")
        if not found:
            self._shown()  # raises an error if this is not a run
            raise missing(f"the run in '{self.folder}' has no {name}", "evaluate it with csv: true")
        return found[0]


def run_of(answer: Answer) -> Run:
    """Returns the run after a successful `run`, `resume` or `evaluate`. Otherwise raises, with the run if there is one."""
    folder = (answer.result or {}).get("folder")
    run = Run(folder) if folder else None
    if answer.is_interrupted:
        raise Interrupted(f"stopped; {run!r}.resume() continues it" if run else "stopped", run)
    answer.check(run)
    assert run is not None
    return run


def folder_word(folder: Path | None) -> list[str]:
    return [] if folder is None else rendered([{"run.dir": os.fspath(folder)}], {})


def _image_word(file: Path) -> str:
    """Returns a path that is not parsed as an override, even if it does not exist."""
    path = os.fspath(file)
    return os.path.abspath(path) if "=" in path else path


def _image_prediction(row: dict[str, Any]) -> ImagePrediction:
    classes = {one["class"]: number(one["probability"]) for one in row.pop("classes", [])}
    predicted = row.pop("prediction", next(iter(classes), None))
    told = {"file": row.pop("file"), "predicted": predicted, "probability": classes.get(predicted), "classes": classes}
    return cast(ImagePrediction, {**told, **row})
