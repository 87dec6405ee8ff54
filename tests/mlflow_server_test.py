#!/usr/bin/env python3
"""Sends runs to a real MLflow server, with SQLite on a free port of this machine, and checks what it stored.

    mlflow_server_test.py ROOT RETORT

A run, its second export, a run that was killed and resumed, and a sweep. Skipped (77) if MLflow cannot be installed.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

root, retort = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
failures = []
RECIPE = ["classify", "data.root=photos", "data.image_size=24", "batch_size=8", "run.mlflow=true"]


def expect(what, found, wanted):
    if found != wanted:
        failures.append(f"{what}: {found!r}, not {wanted!r}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """The server's responses, through its REST API."""

    def __init__(self, address):
        self.address = address

    def ask(self, method, **arguments):
        request = urllib.request.Request(
            f"{self.address}/api/2.0/mlflow/{method}", json.dumps(arguments).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def runs(self, experiment):
        with urllib.request.urlopen(
                f"{self.address}/api/2.0/mlflow/experiments/get-by-name?experiment_name={experiment}", timeout=60) as reply:
            found = json.load(reply)["experiment"]["experiment_id"]
        return self.ask("runs/search", experiment_ids=[found]).get("runs", [])

    def history(self, run, metric):
        address = f"{self.address}/api/2.0/mlflow/metrics/get-history?run_id={run}&metric_key={metric}"
        with urllib.request.urlopen(address, timeout=60) as reply:
            return [(one["step"], one["value"]) for one in json.load(reply).get("metrics", [])]


def measured(folder, name):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["value"]) for line in lines if line["name"] == name]


def tags_of(run):
    return {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}


def check_run(server, folder, experiment):
    runs = server.runs(experiment)
    expect(f"runs of {experiment}", len(runs), 1)
    for run in runs:
        expect(f"{experiment}: status", run["info"]["status"], "FINISHED")
        params = {param["key"]: param["value"] for param in run["data"]["params"]}
        expect(f"{experiment}: train.batch_size", params.get("train.batch_size"), "8")
        for name in ("train/loss", "validation/accuracy"):
            expect(f"{experiment}: {name}", sorted(server.history(run["info"]["run_id"], name)),
                   sorted(measured(folder, name)))


def main(folder, server):
    def run(experiment, *words, wait=True):
        variables = dict(os.environ, MLFLOW_TRACKING_URI=server.address, MLFLOW_EXPERIMENT_NAME=experiment)
        process = subprocess.Popen([retort, *words], cwd=folder, env=variables, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        if wait:
            said = process.communicate()[1]
            expect(" ".join(words), process.returncode, 0)
            expect(f"{experiment}: warnings", [line for line in said.splitlines() if "warning[" in line], [])
        return process

    run("", "data", "make", "image_folder", "--out", "photos", "--classes", "3", "--per-class", "10", "--size", "24")
    run("one", "run", *RECIPE, "epochs=2", "run.dir=one")
    check_run(server, folder / "one", "one")
    run("one", "export", "one", "--mlflow", server.address)
    check_run(server, folder / "one", "one")

    killed = run("killed", "run", *RECIPE, "epochs=40", "run.dir=killed", wait=False)
    metrics = folder / "killed/metrics.jsonl"
    while killed.poll() is None and not (metrics.exists() and "validation/" in metrics.read_text()):
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    run("killed", "resume", "killed")
    check_run(server, folder / "killed", "killed")

    run("swept", "sweep", *RECIPE, "epochs=1", "seed=1,2", "sweep.dir=swept", "--slots", "2")
    swept = server.runs("swept")
    expect("runs of the sweep", len(swept), 3)
    parents = {run["info"]["run_id"] for run in swept if "mlflow.parentRunId" not in tags_of(run)}
    expect("parents", {tags_of(run).get("mlflow.parentRunId") for run in swept} - {None}, parents)
    expect("statuses", {run["info"]["status"] for run in swept}, {"FINISHED"})


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    if subprocess.run([root / "scripts/mlflow", "--version"], stdout=subprocess.DEVNULL).returncode != 0:
        print("skipped: MLflow cannot be installed here")
        sys.exit(77)
    port = free_port()
    command = [root / "scripts/mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{here}/mlflow.db", "--artifacts-destination", str(here / "artifacts")]
    with open(here / "server.log", "w") as log:
        process = subprocess.Popen(command, cwd=here, stdout=log, stderr=log, start_new_session=True)
    try:
        for attempt in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        main(here, Server(f"http://127.0.0.1:{port}"))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
print("\n".join(failures))
sys.exit(1 if failures else 0)
