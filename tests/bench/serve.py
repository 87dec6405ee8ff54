"""The response time of `retort serve` for a folder with many runs."""

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RETORT = ROOT / "build/bin/retort"
RUNS = 10_000
ASKED = ("/", "/?sort=result", "/?state=finished&page=50", "/?text=probe", "/?text=top1%3E0.5")


def make_runs(folder, count):
    """Writes small records of finished runs."""
    for number in range(count):
        run = folder / f"2026-{1 + number % 12:02}-01" / f"{number:05}"
        node = run / "nodes/train"
        (run / ".retort").mkdir(parents=True)
        node.mkdir(parents=True)
        (run / ".retort/run.json").write_text('{"schema": 1}')
        (run / ".retort/environment.json").write_text('{"device": "cpu", "threads": 1}')
        (run / ".retort/recipe.yaml").write_text(f"name: probe\nmodel: {{kind: model.lora}}\ntrain: {{kind: train.supervised, rate: {number}}}\n")
        (run / ".retort/graph.json").write_text('{"nodes": [{"id": "train", "kind": "train.supervised"}]}')
        (node / "training_metrics.json").write_text(json.dumps({"train_losses": [3, 2, 1], "val_losses": [3, 2.5, 2], "val_accuracies": [0.2, 0.4, 0.5], "epoch_times": [1, 1, 1]}))
        (run / "summary.json").write_text(json.dumps({
            "schema": 1, "recipe": "probe", "status": "failed" if number % 10 == 0 else "finished", "exit": 0,
            "started": f"2026-{1 + number % 12:02}-01T12:{number // 60 % 60:02}:{number % 60:02}+0000", "seconds": 60 + number,
            "nodes": [{"id": "train", "status": "finished", "seconds": 1, "peak_memory_bytes": 1 << 28}],
            "metrics": {"evaluate": {"evaluate/top1": {"value": number % 1000 / 1000, "step": 9}}}}))


def seconds_of(port, cookie, path):
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Cookie": cookie})
    reply = connection.getresponse()
    body = reply.read()
    seconds = time.perf_counter() - begin
    if reply.status != 200 or b"<table>" not in body:
        sys.exit(f"bench: {path} answered {reply.status}")
    return seconds


def serve(arguments, results):
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder, "runs"), RUNS)
        environment = dict(os.environ, RETORT_CACHE=str(Path(folder, "cache")))
        begin = time.perf_counter()
        server = subprocess.Popen([RETORT, "serve", "runs", "--port", "0"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        address = server.stdout.readline()
        first = time.perf_counter() - begin
        port, token = re.search(r":(\d+)/\?token=(\w+)", address).groups()
        cookie = f"retort-{port}={token}"
        print(f"serve: {RUNS} runs; reading them for the first time: {first:.1f} s")
        times = {}
        for path in ASKED:
            times[path] = [1000 * seconds_of(int(port), cookie, path) for _ in range(10 * arguments.blocks)]
            print(f"  {path:<28} median {statistics.median(times[path]):6.1f} ms, 95% below {statistics.quantiles(times[path], n=20)[-1]:6.1f} ms")
        server.terminate()
        server.wait()
    results["serve"] = {"runs": RUNS, "first_seconds": first, "milliseconds": times}
