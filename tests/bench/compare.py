"""Runs benchmarks against their peers in alternating short blocks, so that other load on the machine affects both.

Prints medians, their ratio to the peer's, and the spread of single blocks. Called by scripts/bench.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clip import clip
from hosted import hosted
from launches import launches
from peers import peers
from plans import plans
from ranks import ranks
from serve import serve
from sides import Program, spread, table
from train import train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def milliseconds(command, folder, environment=None):
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, **(environment or {})))
    return 1000 * (time.perf_counter() - began)


def startup(arguments, results):
    """Whole processes of the verbs that only read text."""
    retort = str(ROOT / "build/bin/retort")
    commands = {
        "retort validate quickstart": [retort, "validate", "quickstart"],
        "retort graph quickstart": [retort, "graph", "quickstart"],
        "retort --version": [retort, "--version"],
        "/bin/true": ["/bin/true"],
        "python3 -c pass": [sys.executable, "-c", "pass"],
    }
    times = {name: [] for name in commands}
    for turn in range(arguments.blocks * 10 + 1):
        for name, command in commands.items():
            value = milliseconds(command, ROOT)
            times[name] += [value] * (turn > 0)
    peer = statistics.median(times["python3 -c pass"])
    print(f"\nWhole process, {arguments.blocks * 10} runs each, alternating; the aim is below 10 ms")
    rows = [("", "median ms", "spread", "of python3 -c pass")]
    for name, values in times.items():
        median = statistics.median(values)
        rows.append((name, f"{median:.2f}", f"{spread(values):.0%}", f"{median / peer:.2f}"))
    table(rows)
    results["startup"] = {name: {"median_ms": statistics.median(values), "all": values} for name, values in times.items()}


def compose(arguments, results):
    """Whole processes of Retort and Hydra on the same tree of config files."""
    tree = Path(arguments.configs).resolve()
    if not tree.is_dir():
        sys.exit(f"bench: there is no folder of configs '{tree}': pass one with --configs")
    retort, recipe = str(ROOT / "build/bin/retort"), str(tree / "config.yaml")
    hydra = [sys.executable, str(HERE / "hydra_app.py"), "--config-dir", str(tree), "--config-name", "config"]
    sweep = [retort, "sweep", str(ROOT / "experiments/quickstart.yaml"), "--dry-run"]  # composed, validated, compiled
    few, many = 20, 1000
    with tempfile.TemporaryDirectory() as folder:
        pairs = {
            "show": ([retort, "config", "show", recipe, "db=pg"], [*hydra, "--cfg", "job", "db=pg"], {}),
            "complete": ([retort, "__complete", "line", f"retort config show {recipe} db=", " =:"], [*hydra, "-sc", "query=bash"], {"COMP_LINE": "hydra_app.py db="}),
            f"{few} jobs": ([*sweep, f"seed=range({few})"], [*hydra, "-m", f"lr=range({few})", "hydra.sweep.dir=sweep"], {}),
            f"{many} jobs": ([*sweep, f"seed=range({many})"], None, {}),
        }
        times = {name: {"retort": [], "Hydra": []} for name in pairs}
        for turn in range(arguments.blocks + 1):
            for name, (ours, peer, environment) in pairs.items():
                for side, command in (("retort", ours), ("Hydra", peer)):
                    if command:
                        value = milliseconds(command, folder, environment)
                        times[name][side] += [value] * (turn > 0)
    print(f"\nConfig files to text, whole processes, {arguments.blocks} runs each, alternating; the aims: 10 ms, 10 ms, and 500 ms for {many} jobs")
    rows = [("", "retort ms", "spread", "Hydra ms", "retort / Hydra")]
    for name, sides in times.items():
        ours = statistics.median(sides["retort"])
        peer = statistics.median(sides["Hydra"]) if sides["Hydra"] else None
        rows.append((name, f"{ours:.2f}", f"{spread(sides['retort']):.0%}", f"{peer:.1f}" if peer else "", f"{ours / peer:.4f}" if peer else ""))
    table(rows)
    results["compose"] = times


def sweep(arguments, results):
    """Sweeps of trials that do nothing, compared with Hydra's basic launcher: the time of the runner itself, without workers."""
    jobs, tree = 1000, Path(arguments.configs).resolve()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "bin").mkdir()
        (home / "photos").mkdir()
        shutil.copy(ROOT / "build/bin/retort", home / "bin")
        hello = subprocess.run(["bash", "-c", f"{ROOT}/build/bin/retort-worker --events-fd 3 3>&1 >/dev/null </dev/null | head -1"], capture_output=True, text=True).stdout.strip()
        lines = [hello, '{"event":"ready","device":"cpu","threads":1,"variables":{}}', '{"event":"finished","exit":0}']
        worker = home / "bin/retort-worker"

        def write_worker(read):
            worker.write_text("#!/bin/sh\n" + f"\n{read}\n".join(f"echo '{line}' >&3" for line in lines) + "\n")
            worker.chmod(0o755)

        (home / "noop.yaml").write_text("schema: 1\ndevice: cpu\ndata: {kind: data.image_folder, root: photos}\n")
        ours = [str(home / "bin/retort"), "sweep"]
        # The time to send a request to the worker counts too: a shell reads it byte by byte.
        write_worker(f"read -r request; printf '%s\\n' \"$request\" >>{home}/requests")
        subprocess.run([*ours, "noop.yaml", "seed=0", "sweep.dir=first", "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        write_worker("read -r request")
        alone = ["sh", "-c", f"i=0; while [ $i -lt {jobs} ]; do {worker} <{home}/requests 3>/dev/null; i=$((i+1)); done"]
        commands = {
            "retort: workers alone": alone,
            "retort: whole sweep": [*ours, "noop.yaml", f"seed=range({jobs})", "sweep.dir=ours", "-q"],
            "retort: resume, nothing left": [*ours, "resume", "ours", "-q"],
        }
        if tree.is_dir():
            commands["Hydra: basic launcher"] = [sys.executable, str(HERE / "hydra_app.py"), "--config-dir", str(tree), "--config-name", "config", "-m", f"lr=range({jobs})", "hydra.sweep.dir=sweep"]
        times = {name: milliseconds(command, folder) / 1000 for name, command in commands.items()}
        trials = json.loads((home / "ours/results.json").read_text())["trials"]
        if sum(trial["state"] == "finished" for trial in trials) != jobs:
            sys.exit("bench: not every trial has finished")
    own = times["retort: whole sweep"] - times["retort: workers alone"] + times["retort: resume, nothing left"]
    times["retort: without workers, with resume"] = own
    print(f"\nA sweep of {jobs} trials that do nothing, one after another; the aim is below 5 s without workers")
    table([("", "s", "ms per trial"), *((name, f"{value:.2f}", f"{value / jobs * 1000:.2f}") for name, value in times.items())])
    results["sweep"] = times


def preprocess(arguments, results):
    """Image files to normalized tensors on one core."""
    root = Path(arguments.images)
    if not root.is_dir():
        sys.exit(f"bench: there is no folder of images '{root}': pass one with --images")
    options = {"root": str(root), "image_size": 224, "images": arguments.image_count}
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    programs = [
        Program([str(ROOT / "build/bin/preprocess_bench")], options, one_thread),
        Program([sys.executable, str(HERE / "preprocess.py")], options, one_thread),
    ]
    count = programs[0].started["images"]
    if programs[1].started["images"] != count:
        sys.exit("bench: the two sides found different files")
    means = {name: mean for program in programs for name, mean in program.started["mean"].items()}
    times = {}
    for turn in range(arguments.blocks + 1):
        for program in programs:
            for name, seconds in program.block()["seconds"].items():
                if turn > 0:
                    times.setdefault(name, []).append(count / seconds)
    for program in programs:
        program.end()
    print(f"\nRead, decode, resize to 224 pixels (bicubic), crop, normalize: {count} photographs, one core, {arguments.blocks} blocks")
    rows = [("", "images/s", "spread", "of PIL", "mean value")]
    peer = statistics.median(times["PIL"])
    for name, values in sorted(times.items(), key=lambda item: -statistics.median(item[1])):
        median = statistics.median(values)
        mean = f"{means[name]:.6f}" if name in means else ""
        rows.append((name, f"{median:.1f}", f"{spread(values):.0%}", f"{median / peer:.2f}", mean))
    table(rows)
    results["preprocess"] = {"images_per_second": times, "mean": means}


def fundus(arguments, results):
    """Preprocessing of retina images on one core."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"size": 1024, "folder": folder, "images": 10}
        programs = {
            "retort": Program([str(ROOT / "build/bin/fundus_bench")], options),
            "OpenCV in Python": Program([sys.executable, str(HERE / "fundus.py")], options),
        }
        times = {}
        for turn in range(arguments.blocks + 1):
            for side, program in programs.items():
                for name, seconds in program.block()["seconds"].items():
                    if turn > 0:
                        times.setdefault((name, side), []).append(options["images"] / seconds)
        for program in programs.values():
            program.end()
    print(f"\nPhotographs of {options['size']} x {options['size']} pixels in memory, one core, {arguments.blocks} blocks")
    rows = [("", "images/s", "spread", "of OpenCV in Python", "sum of values")]
    for (name, side), values in times.items():
        median, peer = statistics.median(values), statistics.median(times[name, "OpenCV in Python"])
        rows.append((f"{name}, {side}", f"{median:.1f}", f"{spread(values):.0%}", f"{median / peer:.2f}", programs[side].started["sums"][name]))
    table(rows)
    results["fundus"] = {"images_per_second": {", ".join(key): values for key, values in times.items()}, "sums": {side: program.started["sums"] for side, program in programs.items()}}


def step_options(arguments, folder, recompute=False):
    """The options of both sides for a training step of CLIP B/32."""
    model = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "patch_size": 32}
    if arguments.tiny:
        model.update(hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4)
    return {
        "folder": folder,
        "recompute": recompute,
        "threads": arguments.threads,
        "batch": arguments.batch,
        "image_size": 224,
        "classes": 12,
        "steps": arguments.blocks * arguments.steps + 8,
        "optimizer": {"learning_rate": 1e-5, "betas": [0.9, 0.999], "epsilon": 1e-8, "weight_decay": 0.01},
        "model": model,
    }


def train_step(arguments, results):
    """A training step of CLIP B/32 on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        options = step_options(arguments, folder)
        threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
        ours = Program([str(ROOT / "build/bin/train_step_bench")], options, threads)
        peer = Program([sys.executable, str(HERE / "train_step.py")], options, threads)
        sides = {"retort": ours, "Python": peer}
        blocks = {name: [] for name in sides}
        for turn in range(arguments.blocks + 1):
            # The first block warms up; then the sides take turns going first.
            for name in sorted(sides, reverse=turn % 2 == 0):
                blocks[name].append(sides[name].block(arguments.steps if turn else 2))
        for program in sides.values():
            program.end()

    losses = {name: [loss for block in parts for loss in block["losses"]] for name, parts in blocks.items()}
    medians = {name: [statistics.median(block["seconds"]) for block in parts[1:]] for name, parts in blocks.items()}
    ratios = [ours_block / peer_block for ours_block, peer_block in zip(medians["retort"], medians["Python"])]
    size = "4 layers of width 128" if arguments.tiny else "CLIP B/32"
    print(f"\nTraining step of {size}, batch {arguments.batch}, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps each, alternating")
    rows = [("", "s/step", "spread", "peak MB", "peak minus start MB")]
    for name, parts in blocks.items():
        start = sides[name].started["resident_bytes"]
        peak = parts[-1]["peak_bytes"]
        rows.append((name, f"{statistics.median(medians[name]):.4f}", f"{spread(medians[name]):.1%}", f"{peak / 1e6:.0f}", f"{(peak - start) / 1e6:.0f}"))
    table(rows)
    difference = max(abs(a - b) / abs(b) for a, b in zip(losses["retort"], losses["Python"]))
    print(f"  retort / Python time: median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")
    print(f"  loss from {losses['retort'][0]:.4f} to {losses['retort'][-1]:.4f}; the two curves differ by at most a relative {difference:.1e}")
    results["train_step"] = {"ratios": ratios, "losses": losses, "blocks": blocks}


def episodes(arguments, results):
    """A training step on an episode: four convolution blocks and the cosine transformer, 5 ways, 5 shots, 16 queries, 84 pixels."""
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    shape = {"ways": 5, "shots": 5, "queries": 16, "image_size": 84}
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "folder": folder,
            "threads": arguments.threads,
            **shape,
            "episodes": 2,
            "steps": (arguments.blocks + 1) * arguments.steps + 8,
            "optimizer": {"learning_rate": 1e-3, "weight_decay": 1e-5},
        }
        sides = {"retort": Program([str(ROOT / "build/bin/episode_bench")], options, threads)}
        sides["Python"] = Program([sys.executable, str(HERE / "episode_peer.py")], options, threads)
        blocks = {name: [] for name in sides}
        for turn in range(arguments.blocks + 1):
            # The first block warms up; then the sides take turns going first.
            for name in sorted(sides, reverse=turn % 2 == 0):
                blocks[name].append(sides[name].block(arguments.steps if turn else 2))
        for program in sides.values():
            program.end()
    medians = {name: [statistics.median(block["seconds"]) for block in parts[1:]] for name, parts in blocks.items()}
    ratios = [ours / peer for ours, peer in zip(medians["retort"], medians["Python"])]
    print(f"\nTraining on episodes of 105 images of 84 pixels, Conv4, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} each, alternating; the aim is 0.65 of Python's time")
    rows = [("", "episodes/s", "s/episode", "spread", "peak MB", "peak minus start MB")]
    for name, parts in blocks.items():
        median, peak = statistics.median(medians[name]), parts[-1]["peak_bytes"]
        above = (peak - sides[name].started["resident_bytes"]) / 1e6
        rows.append((name, f"{1 / median:.2f}", f"{median:.4f}", f"{spread(medians[name]):.1%}", f"{peak / 1e6:.0f}", f"{above:.0f}"))
    table(rows)
    first = {name: parts[0]["losses"] for name, parts in blocks.items()}
    difference = max(abs(a - b) / abs(b) for a, b in zip(first["retort"], first["Python"]))
    print(f"  retort / Python time: median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")
    print(f"  the losses of the first two episodes, which are the same, differ by at most a relative {difference:.1e}")
    results["episodes"] = {"ratios": ratios, "blocks": blocks}


def recompute(arguments, results):
    """The same step with activation checkpointing, compared with torch.utils.checkpoint in Python."""
    size = "4 layers of width 128" if arguments.tiny else "CLIP B/32"
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    commands = {"retort": [str(ROOT / "build/bin/train_step_bench")], "Python": [sys.executable, str(HERE / "train_step.py")]}
    sides, folders = {}, []
    for name, command in commands.items():
        for again in (False, True):
            # Every peer starts from the weights that our program wrote just before.
            if name == "retort":
                folders.append(tempfile.TemporaryDirectory())
            options = step_options(arguments, folders[again].name, again)
            sides[name + (", recomputed" if again else "")] = Program(command, options, threads)
    blocks = {name: [] for name in sides}
    for turn in range(arguments.blocks + 1):
        for name in sorted(sides, reverse=turn % 2 == 0):
            blocks[name].append(sides[name].block(arguments.steps if turn else 2))
    for program in sides.values():
        program.end()
    for folder in folders:
        folder.cleanup()

    medians = {name: [statistics.median(block["seconds"]) for block in parts[1:]] for name, parts in blocks.items()}
    overheads = {side: [again / plain for again, plain in zip(medians[side + ", recomputed"], medians[side])] for side in commands}
    print(f"\nRecomputing the activations of each block of {size}, batch {arguments.batch}, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps each, alternating")
    rows = [("", "s/step", "spread", "peak minus start MB")]
    above = {name: (parts[-1]["peak_bytes"] - sides[name].started["resident_bytes"]) / 1e6 for name, parts in blocks.items()}
    for name in sides:
        rows.append((name, f"{statistics.median(medians[name]):.4f}", f"{spread(medians[name]):.1%}", f"{above[name]:.0f}"))
    table(rows)
    for side, values in overheads.items():
        print(f"  recomputed / kept time of {side}: median {statistics.median(values):.3f}, from {min(values):.3f} to {max(values):.3f}")
    ratios = [ours / peer for ours, peer in zip(overheads["retort"], overheads["Python"])]
    print(f"  ratio of retort to Python: median {statistics.median(ratios):.3f}; of the peaks: {above['retort, recomputed'] / above['Python, recomputed']:.3f}")
    losses = {name: [loss for block in parts for loss in block["losses"]] for name, parts in blocks.items()}
    print(f"  losses of retort, recomputed and kept, are {'equal' if losses['retort'] == losses['retort, recomputed'] else 'NOT EQUAL'} bit for bit")
    results["recompute"] = {"overheads": overheads, "above_start_mb": above, "losses": losses}


def optimizer(arguments, results):
    """Updates of all weights of CLIP B/32's vision tower, compared with torch.optim on the same LibTorch."""
    width, layers = (128, 4) if arguments.tiny else (768, 12)
    layer = [width * width, width] * 4 + [4 * width * width, 4 * width, 4 * width * width, width] + [width] * 4
    sizes = [width, width * 3 * 32 * 32, 50 * width] + [width] * 2 + layer * layers + [width] * 2
    print(f"\nOptimizer step over {len(sizes)} parameters of {sum(sizes) / 1e6:.1f} million numbers, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps each, alternating")
    rows = [("", "ms/step", "spread", "of fused", "of foreach", "sums of weights differ by")]
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    results["optimizer"] = {}
    for rule, clip in (("sgd", None), ("adamw", None), ("adamw", 0.1)):
        options = {"rule": rule, "clip": clip, "threads": arguments.threads, "sizes": sizes}
        python = [sys.executable, str(HERE / "optimizer.py")]
        sides = {
            "retort": Program([str(ROOT / "build/bin/optimizer_bench")], options, threads),
            "retort, 8 bits": Program([str(ROOT / "build/bin/optimizer_bench")], dict(options, state_bits=8), threads),
            "torch fused": Program(python, dict(options, form="fused"), threads),
            "torch foreach": Program(python, dict(options, form="foreach"), threads),
        }
        blocks = {name: [] for name in sides}
        for turn in range(arguments.blocks + 1):
            # The first block warms up; then the order alternates.
            for name in sorted(sides, reverse=turn % 2 == 0):
                blocks[name].append(sides[name].block(arguments.steps))
        for program in sides.values():
            program.end()
        medians = {name: [statistics.median(block["seconds"]) for block in parts[1:]] for name, parts in blocks.items()}
        sums = {name: parts[-1]["sum"] for name, parts in blocks.items()}
        size = blocks["torch fused"][-1]["size"]

        def ratio(name, peer):
            return f"{statistics.median(a / b for a, b in zip(medians[name], medians[peer])):.3f}"

        title = rule + (", clipped" if clip else "")
        for name, values in medians.items():
            difference = abs(sums[name] - sums["torch fused"]) / size
            rows.append((f"{title}: {name}", f"{1000 * statistics.median(values):.2f}", f"{spread(values):.1%}", ratio(name, "torch fused"), ratio(name, "torch foreach"), f"{difference:.0e}"))
        results["optimizer"][title] = {"medians": medians, "sums": sums}
    table(rows)


def layout(arguments, results):
    """Networks in both memory layouts, and the layout that the rule of `layout: auto` chooses."""
    options = {"threads": arguments.threads, "batch": arguments.batch}
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    program = Program([str(ROOT / "build/bin/layout_bench")], options, threads)
    rule = program.started["rule"]
    times = {network: {"contiguous": [], "channels_last": []} for network in rule}
    for turn in range(arguments.blocks + 1):
        for network, sides in program.block(arguments.steps if turn else 1)["seconds"].items():
            for side, seconds in sides.items():
                times[network][side] += [seconds] * (turn > 0)
    program.end()
    print(f"\nForward and backward, batch {arguments.batch}, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps, alternating; rule {program.started['name']}")
    rows = [("", "contiguous ms", "spread", "channels_last ms", "spread", "contiguous / channels_last", "from", "to", "rule", "agrees")]
    for network, sides in times.items():
        plain, last = sides["contiguous"], sides["channels_last"]
        ratios = sorted(a / b for a, b in zip(plain, last))
        ratio = statistics.median(ratios)
        agrees = "no difference" if ratios[0] < 1 < ratios[-1] else "yes" if (ratio > 1) == (rule[network] == "channels_last") else "NO"
        rows.append((network, f"{1000 * statistics.median(plain):.1f}", f"{spread(plain):.0%}", f"{1000 * statistics.median(last):.1f}", f"{spread(last):.0%}", f"{ratio:.2f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}", rule[network], agrees))
    table(rows)
    results["layout"] = {"seconds": times, "rule": rule}


def choice(arguments, results):
    """The planner's choice under a budget, compared with the fastest way that fits; every way is run."""
    options = {"threads": arguments.threads, "batch": arguments.batch, "layers": 6}
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    program = Program([str(ROOT / "build/bin/choice_bench")], options, threads)
    ways, chosen = program.started["ways"], program.started["chosen"]
    program.block(1)
    blocks = [program.block(arguments.steps)["seconds"] for _ in range(arguments.blocks)]
    program.end()
    seconds = [statistics.median(block[way] for block in blocks) for way in range(len(ways))]
    print(f"\nWays of computing a step, batch {arguments.batch}, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps, alternating")
    rows = [("budget MiB", "chosen", "ms", "fastest that fits", "ms", "chosen / fastest")]
    ratios = []
    for one in chosen:
        fits = [way for way in range(len(ways)) if ways[way]["bytes"] <= one["budget"]]
        best = min(fits, key=lambda way: seconds[way])
        ratios.append(statistics.median(block[one["way"]] / block[best] for block in blocks))  # in the same turn
        rows.append((f"{one['budget'] / 2**20:.1f}", ways[one["way"]]["name"], f"{1000 * seconds[one['way']]:.1f}", ways[best]["name"], f"{1000 * seconds[best]:.1f}", f"{ratios[-1]:.3f}"))
    table(rows)
    print(f"  chosen / fastest: median {statistics.median(ratios):.3f}, worst {max(ratios):.3f}; the aims are 1.05 and 1.2")
    results["choice"] = {"ways": ways, "chosen": chosen, "seconds": seconds, "ratios": ratios}


def dropout(arguments, results):
    """Counter-based dropout, compared with torch's, which keeps its mask."""
    options = {"threads": arguments.threads, "batch": arguments.batch}
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    program = Program([str(ROOT / "build/bin/dropout_bench")], options, threads)
    times, saved = {}, {}
    for turn in range(arguments.blocks + 1):
        answer = program.block(10 * arguments.steps if turn else 1)
        saved = answer["saved_bytes"]
        for name, sides in answer["seconds"].items():
            for side, seconds in sides.items():
                times.setdefault(name, {}).setdefault(side, []).extend([seconds] * (turn > 0))
    program.end()
    print(f"\nDropout forward and backward, batch {arguments.batch}, {arguments.threads} threads: {arguments.blocks} blocks of {10 * arguments.steps} steps, alternating")
    rows = [("", "retort ms", "spread", "torch ms", "spread", "retort / torch", "from", "to", "retort keeps", "torch keeps")]
    for name, sides in times.items():
        ratios = sorted(a / b for a, b in zip(sides["retort"], sides["torch"]))
        cells = [f"{1000 * statistics.median(sides['retort']):.2f}", f"{spread(sides['retort']):.0%}", f"{1000 * statistics.median(sides['torch']):.2f}", f"{spread(sides['torch']):.0%}"]
        kept = [f"{saved[name][side]:,} B" for side in ("retort", "torch")]
        rows.append((name, *cells, f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}", *kept))
    table(rows)
    results["dropout"] = {"seconds": times, "saved_bytes": saved}


def budget(arguments, results):
    """A training step on the CPU pool under a budget, compared with malloc by default and with returning each large block to the kernel."""
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    program = Program([str(ROOT / "build/bin/budget_bench")], {"threads": arguments.threads, "batch": arguments.batch}, threads)
    program.block(1)
    blocks = [program.block(arguments.steps)["seconds"] for _ in range(arguments.blocks)]
    program.end()
    print(f"\nTraining step under a budget, batch {arguments.batch}, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps, alternating")
    rows = [("", "retort ms", "spread", "torch ms", "spread", "returning ms", "spread", "retort / torch", "from", "to")]
    for name in blocks[0]:
        sides = {side: [block[name][side] for block in blocks] for side in ("retort", "torch", "returning")}
        ratios = sorted(a / b for a, b in zip(sides["retort"], sides["torch"]))
        cells = [cell for values in sides.values() for cell in (f"{1000 * statistics.median(values):.2f}", f"{spread(values):.0%}")]
        rows.append((name, *cells, f"{statistics.median(ratios):.3f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"))
    table(rows)
    results["budget"] = blocks


def checkpoint(arguments, results):
    """Saving and loading a training state, compared with writing and reading the same number of plain bytes; files were just written."""
    millions = 4 if arguments.tiny else 88
    with tempfile.TemporaryDirectory(dir=".") as folder:
        program = Program([str(ROOT / "build/bin/checkpoint_bench")], {"folder": str(Path(folder).resolve()), "millions": millions})
        blocks = [program.block() for _ in range(arguments.blocks + 1)][1:]
        program.end()
    size = blocks[0]["bytes"]
    print(f"\nCheckpoint of {millions} million weights with Adam's moments, {size / 2**30:.2f} GiB: {arguments.blocks} of each, alternating")
    rows = [("", "s", "spread", "GiB/s", "of the bare")]
    for name, bare in (("save", "write"), ("write", "write"), ("load", "read"), ("read", "read")):
        values = [block["seconds"][name] for block in blocks]
        ratio = statistics.median(block["seconds"][name] / block["seconds"][bare] for block in blocks)
        median = statistics.median(values)
        rows.append((name if name != bare else f"bare {name}", f"{median:.2f}", f"{spread(values):.0%}", f"{size / 2**30 / median:.2f}", f"{ratio:.2f}"))
    table(rows)
    results["checkpoint"] = blocks


def weights(arguments, results):
    """Reading saved weights with their checksums, compared with the libraries that write them; the files were just written."""
    tower = {"width": 128, "layers": 4, "patch": 32} if arguments.tiny else {"width": 1024, "layers": 24, "patch": 14}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        peer = Program([sys.executable, str(HERE / "weights.py")], {"folder": str(Path(folder).resolve()), "tower": tower})
        ours = Program([str(ROOT / "build/bin/weights_bench")], {"files": peer.started["files"]})
        blocks = [(ours.block(), peer.block()) for _ in range(arguments.blocks + 1)][1:]
        for program in (ours, peer):
            program.end()
    if any(abs(own["sums"][name] - other["sums"][name]) > 1e-3 for own, other in blocks for name in own["sums"]):
        sys.exit("bench: the two sides read different numbers")
    size = peer.started["bytes"]
    print(f"\nReading {size / 2**30:.2f} GiB of weights, retort with their SHA-256: {arguments.blocks} of each, alternating")
    rows = [("", "s", "spread", "retort s", "spread", "retort / it", "from", "to")]
    for name in ("safetensors", "zip", "stream"):
        own = [block["seconds"][name] for block, _ in blocks]
        for way in blocks[0][1]["seconds"][name]:
            values = [block["seconds"][name][way] for _, block in blocks]
            ratios = sorted(a / b for a, b in zip(own, values))
            rows.append((f"{name}: {way}", f"{statistics.median(values):.2f}", f"{spread(values):.0%}", f"{statistics.median(own):.2f}", f"{spread(own):.0%}", f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"))
    table(rows)
    print(f"  peak MB: retort {blocks[-1][0]['peak_bytes'] / 1e6:.0f}")
    results["weights"] = blocks


def memory(arguments, results):
    """The peak memory of training: predicted by a dry run, counted by the allocator, and used by the process, each in a fresh process."""
    tower = {"width": 96, "heads": 3, "layers": 2, "patch": 32, "image_size": 96} if arguments.tiny else {"width": 768, "heads": 12, "layers": 12, "patch": 16, "image_size": 224}
    plain = {"steps": 2, "batch": 8, "micro_batch": 0, "two_pass": False, "lora": False}
    ways = {"batch 8": {}, "batch 2": {"batch": 2}, "micro-batches of 2": {"micro_batch": 2}, "two passes, of 2": {"micro_batch": 2, "two_pass": True}, "adapters": {"lora": True}}
    rows = [("", "predicted in ms", "counted MB", "predicted / it", "reserved MB", "predicted / it", "process MB", "predicted / it")]
    results["memory"] = {}
    for name, way in ways.items():
        for threads in sorted({1, arguments.threads}):
            case = {**tower, **plain, **way, "threads": threads}
            measured = {}
            for what in ("predicted", "counted", "reserved", "resident"):
                command = [str(ROOT / "build/bin/memory_bench"), json.dumps({**case, "what": what})]
                measured.update(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout))
            predicted, counted, reserved, resident = (measured[what] for what in ("predicted", "counted", "reserved", "resident"))
            shares = (predicted["counted"] / counted, predicted["reserved"] / reserved, predicted["reserved"] / resident)
            cells = [f"{size / 1e6:.1f}" for size in (counted, reserved, resident)]
            rows.append((f"{name}, {threads} thread{'s' if threads > 1 else ''}", f"{measured['seconds'] * 1e3:.0f}", *(cell for size, share in zip(cells, shares) for cell in (size, f"{share:.4f}"))))
            results["memory"][f"{name}, {threads}"] = measured
    print("\nThe peak of two training steps of a vision tower, AdamW")
    table(rows)


def main():
    benchmarks = {"startup": startup, "compose": compose, "sweep": sweep, "preprocess": preprocess, "fundus": fundus, "train": train, "episodes": episodes, "clip": clip, "train_step": train_step, "recompute": recompute, "optimizer": optimizer, "layout": layout, "dropout": dropout, "budget": budget, "checkpoint": checkpoint, "weights": weights, "memory": memory, "plans": plans, "launches": launches, "choice": choice, "peers": peers, "hosted": hosted, "ranks": ranks, "serve": serve}
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures Retort against its peers.")
    parser.add_argument("benchmark", nargs="*", metavar="|".join(benchmarks), help="what to measure; all by default")
    parser.add_argument("--blocks", type=int, default=10, help="turns of each side (10)")
    parser.add_argument("--steps", type=int, default=3, help="training or optimizer steps in a block (3)")
    parser.add_argument("--batch", type=int, default=32, help="images in a training step (32)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of a training or optimizer step (all)")
    parser.add_argument("--tiny", action="store_true", help="small towers in train, train_step, clip and optimizer")
    parser.add_argument("--only", help="the trainings of train whose title has this in it, or the one row of clip that has this title")
    parser.add_argument("--images", default=ROOT.parent / "shared/data/flowers12/images", help="folder of class folders of JPEG files")
    parser.add_argument("--configs", default=ROOT.parent / "shared/cases/hydra/conf", help="folder of a config.yaml for Hydra, with its groups")
    parser.add_argument("--merges", default=ROOT.parent / "shared/data/clip/bpe_simple_vocab_16e6.txt.gz", help="CLIP's merges, for clip")
    parser.add_argument("--image-count", type=int, default=240, help="files in a block of preprocess (240)")
    parser.add_argument("--write", action="store_true", help="peers: writes its table into experiments/oom_claims/README.md")
    parser.add_argument("--json", help="writes every number to this file")
    arguments = parser.parse_args()
    unknown = set(arguments.benchmark) - set(benchmarks)
    if unknown:
        parser.error(f"there is no benchmark '{unknown.pop()}'")
    results = {}
    for name, run in benchmarks.items():
        if not arguments.benchmark or name in arguments.benchmark:
            run(arguments, results)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results), encoding="utf-8")


main()
