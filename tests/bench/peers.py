"""Retort under a budget that is too small for the whole batch, compared with tools that look for a batch that fits."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from sides import table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
README = ROOT / "experiments/oom_claims/README.md"
BEGIN, END = "<!-- peers: begin -->\n", "<!-- peers: end -->\n"
TOOLS = ("retort", "Lightning, power", "Lightning, binsearch", "accelerate", "Composer's rule")
SHARES = (0.5, 0.2)  # of the difference between the needs of the whole batch and of the smallest way


def answer_of(command, options, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    ended = subprocess.run([*command, json.dumps(options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if ended.returncode != 0:
        sys.exit(f"bench: {command} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def one_digit(value):
    return "below 1e-12" if value < 1e-12 else f"{value:.1g}"


def computed(tool, one):
    if tool == "retort":
        return f"{one['batch']}: {one['way']}"
    return f"{one['batch']}" if one["part"] == one["batch"] else f"{one['batch']}: parts of {one['part']}"


def row_of(tool, runs, wanted, budget):
    one = runs[0]
    if not one["batch"]:
        return (tool, str(one["ooms"]), "none", "none", "", "", f"{one['peak'] / 2**20:.0f} MiB")
    is_equal = one["error"] < 1e-12
    return (
        tool,
        str(one["ooms"]),
        f"{statistics.median(run['seconds'] for run in runs):.1f}",
        computed(tool, one),
        "no" if one["batch"] == wanted else "yes",
        ("equal, " if is_equal else "different, ") + one_digit(one["error"]),
        f"{one['peak'] / 2**20:.0f} MiB ({one['peak'] / budget:.0%})",
    )


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def peers(arguments, results):
    """The cost of starting a training run that does not fit as written."""
    runs = min(arguments.blocks, 3)
    batch = 16 if arguments.tiny else 32
    model = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4, "patch_size": 8}
    retort = [str(ROOT / "build/bin/peers_bench")]
    peer = [sys.executable, str(HERE / "find_batch.py")]
    text = ""
    with tempfile.TemporaryDirectory() as folder:
        options = {"folder": folder, "threads": arguments.threads, "batch": batch, "image_size": 64, "classes": 12, "model": model, "library": str(ROOT / "build/tests/bench/libbudget_library.so")}
        needs = answer_of(retort, options, arguments.threads)
        results["peers"] = {"needs": needs}
        for share in SHARES:
            budget = round(needs["least"] + share * (needs["whole"] - needs["least"]))
            all_runs = {tool: [] for tool in TOOLS}
            for _ in range(runs):
                for tool in TOOLS:
                    command = retort if tool == "retort" else peer
                    all_runs[tool].append(answer_of(command, {**options, "budget": budget, "tool": tool}, arguments.threads))
            results["peers"][str(budget)] = all_runs
            rows = [("", "OOMs", "seconds to the first step", "batch", "changed", "gradient of the first step", "peak")]
            rows += [row_of(tool, all_runs[tool], batch, budget) for tool in TOOLS]
            print(f"\nA budget of {budget / 2**20:.0f} MiB for a batch of {batch} that needs {needs['whole'] / 2**20:.0f}, {runs} runs of each, alternating")
            table(rows)
            text += f"The requested batch of {batch} needs {needs['whole'] / 2**20:.0f} MiB at once; the budget is {budget / 2**20:.0f} MiB:\n\n" + markdown(rows) + "\n"
            processor = all_runs[TOOLS[1]][0]["processor"]
    if arguments.write:
        text += f"Measured with {arguments.threads} thread{'s' if arguments.threads > 1 else ''} on a processor with {processor}; seconds are the median of {runs} run{'s' if runs > 1 else ''}.\n"
        before, rest = README.read_text(encoding="utf-8").split(BEGIN)
        README.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")
