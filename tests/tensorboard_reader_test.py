#!/usr/bin/env python3
"""Reads the event files of runs and of a sweep with TensorBoard itself.

    tensorboard_reader_test.py ROOT RETORT

A run that logs gradients and was killed and resumed, its export, and a sweep with its export. Skipped (77) if TensorBoard
cannot be installed.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

root, retort = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
TOOL = [root / "scripts/python-tool", "tensorboard==2.21.0", "python"]
if "--inside" not in sys.argv:
    if subprocess.run([*TOOL, "-c", "import tensorboard"]).returncode != 0:
        print("skipped: TensorBoard cannot be installed here")
        sys.exit(77)
    os.execv(TOOL[0], [str(word) for word in [*TOOL, pathlib.Path(__file__).resolve(), root, retort, "--inside"]])

from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups
from tensorboard.util import tensor_util

RECIPE = ["classify", "data.root=photos", "data.image_size=24", "model.patch_size=8", "batch_size=8", "threads=1",
          "run.tensorboard=true", "train.checkpoint.every.steps=1", "train.log_every=1"]
failures = []


def expect(what, found, wanted):
    if found != wanted:
        failures.append(f"{what}: {found!r}, not {wanted!r}")


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Board:
    """Returns what TensorBoard reads from a folder."""

    def __init__(self, folder):
        self.runs = EventMultiplexer(purge_orphaned_data=True, tensor_size_guidance={name: 0 for name in (
            "scalars", "histograms", "images", "text")}).AddRunsFromDirectory(str(folder)).Reload()
        self.context = backend_context.Context(
            TBContext(data_provider=MultiplexerDataProvider(self.runs, str(folder))))

    def tensors(self, run, tag):
        return [(event.step, tensor_util.make_ndarray(event.tensor_proto)) for event in self.runs.Tensors(run, tag)]

    def tags(self, run, plugin):
        return sorted(self.runs.PluginRunToTagToContent(plugin).get(run, {}))

    def experiment(self):
        tags = self.context.hparams_metadata(RequestContext(), "")
        return get_experiment.Handler(
            RequestContext(), self.context, "", api_pb2.GetExperimentRequest(include_metrics=True)).run(), tags

    def sessions(self):
        tags = api_pb2.ListSessionGroupsRequest(
            allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_UNKNOWN],
            start_index=0, slice_size=100)
        for info in self.experiment()[0].hparam_infos:
            tags.col_params.add(hparam=info.name, include_in_result=True)
        return [session for group in list_session_groups.Handler(RequestContext(), self.context, "", tags).run().session_groups
                for session in [(dict(group.hparams), group.sessions[0])]]


def check_run(folder, files, prefix=""):
    """`files`: the folder of the event files; `prefix`: the prefix of TensorBoard's names for the nodes."""
    board = Board(files)
    name = folder.name
    measured = [(line["step"], line["value"]) for line in lines_of(folder / "metrics.jsonl") if line["name"] == "train/loss"]
    read = [(step, float(value)) for step, value in board.tensors(prefix + "train", "train/loss")]
    expect(f"{name}: steps of train/loss", [step for step, _ in read], [step for step, _ in measured])
    for (_, found), (_, wanted) in zip(read, measured):
        if abs(found - wanted) > 2**-23 * abs(wanted):  # stored as a float32
            failures.append(f"{name}: train/loss {found}, not {wanted}")
    histograms = lines_of(folder / "histograms.jsonl")
    tags = sorted({line["name"] for line in histograms})
    expect(f"{name}: histograms", board.tags(prefix + "train", "histograms"), tags)
    for tag in tags:
        recorded = [(line["step"], line["buckets"]) for line in histograms if line["name"] == tag]
        expect(f"{name}: {tag}", [(step, rows.tolist()) for step, rows in board.tensors(prefix + "train", tag)], recorded)
    whole = prefix.rstrip("/") or "."
    expect(f"{name}: text", board.tags(whole, "text"), ["recipe", "summary"])
    expect(f"{name}: recipe", "schema: 1" in board.tensors(whole, "recipe")[0][1].item().decode(), True)
    expect(f"{name}: summary", "finished" in board.tensors(whole, "summary")[0][1].item().decode(), True)
    examples = json.loads((folder / "nodes/evaluate/examples/examples.json").read_text())
    images = board.tags(prefix + "evaluate", "images")
    expect(f"{name}: images", len(images), len(examples))
    expect(f"{name}: sizes", {tuple(board.tensors(prefix + "evaluate", tag)[0][1][:2]) for tag in images}, {(b"24", b"24")})
    return board


def main(here):
    def run(*words, wait=True):
        process = subprocess.Popen([retort, *words], cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if wait:
            said = process.communicate()[1]
            if process.returncode != 0:
                failures.append(f"{' '.join(words)}: {said}")
        return process

    run("data", "make", "image_folder", "--out", "photos", "--classes", "3", "--per-class", "10", "--size", "24")
    killed = run("run", *RECIPE, "epochs=12", "run.dir=one", "train.log_gradients_every=2", wait=False)
    metrics = here / "one/metrics.jsonl"
    while killed.poll() is None and not (metrics.exists() and "validation/" in metrics.read_text()):
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    run("resume", "one")
    board = check_run(here / "one", here / "one/tensorboard")
    ((options, session),) = board.sessions()
    expect("epochs", options["train.epochs"].number_value, 12.0)
    expect("patch_size", options["model.patch_size"].number_value, 8.0)
    expect("status", session.status, api_pb2.STATUS_SUCCESS)
    run("export", "one", "--tensorboard", "--out", "exported")
    check_run(here / "one", here / "exported")

    run("sweep", *RECIPE, "epochs=1,2", "train.optimizer.learning_rate=0.001,0.01", "sweep.dir=swept", "--slots", "2")
    run("export", "swept", "--tensorboard", "--out", "exported-sweep")
    results = json.loads((here / "swept/results.json").read_text())
    for folder in (here / "swept", here / "exported-sweep"):
        board = Board(folder)
        experiment = board.experiment()[0]
        expect("varied", sorted(info.name for info in experiment.hparam_infos), ["train.epochs", "train.optimizer.learning_rate"])
        named = [(info.name.group, info.name.tag) for info in experiment.metric_infos]
        expect("objective first", named[0][1], results["objective"]["metric"])
        expect("evaluation", ("evaluate", "evaluate/top1") in named, True)
        sessions = board.sessions()
        expect("sessions", len(sessions), 4)
        expect("statuses", {session.status for _, session in sessions}, {api_pb2.STATUS_SUCCESS})
        expect("epochs", sorted(options["train.epochs"].number_value for options, _ in sessions), [1.0, 1.0, 2.0, 2.0])
        for _, session in sessions:
            trial = results["trials"][int(session.name.split("/")[0])]
            found = {value.name.tag: value.value for value in session.metric_values}
            wanted = trial["metrics"]["evaluate/top1"]
            if abs(found.get("evaluate/top1", -1) - wanted) > 2**-23:
                failures.append(f"{session.name}: evaluate/top1 {found.get('evaluate/top1')}, not {wanted}")


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
print("\n".join(failures))
sys.exit(1 if failures else 0)
