"""What shipped recipes were planned to take, beside what they took: tensors, what is reserved for them, and the process."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from sides import table

ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSORS = {"": {}, "AVX-512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "torch without vectors": {"ATEN_CPU_CAPABILITY": "default"}}
PRECISIONS = ("fp32", "bf16")
WORST = {"fp32": 1.04, "bf16": 1.08}


def recipes(images):
    """Command lines by name. All train a small network on a few images, two epochs."""
    small = f"data.root={images} data.image_size=64 train.epochs=2 train.batch_size=16 train.log_every=1"
    tuned = f"finetune data=image_folder model/backbone=tiny {small} data.image_size=56"  # a multiple of its patches
    tower = "model.patch_size=16 model.hidden_size=96 model.intermediate_size=384 model.num_attention_heads=3 model.num_hidden_layers=3"
    return {
        "quickstart": f"quickstart data.make=null {small} {tower}",
        "classify": f"classify model=tiny {small} {tower}",
        "classify, micro-batches": f"classify model=tiny {small} {tower} memory.micro_batch=4",
        "classify, checkpointing": f"classify model=tiny {small} {tower} memory.activation_checkpointing=block",
        "classify, foreach": f"classify model=tiny {small} {tower} ++train.foreach.item=[1,2] ++evaluate.foreach.item=[1,2]",
        "finetune, adapters": f"{tuned} model=lora",
        "finetune, head": f"{tuned} model=linear_probe",
    }


def largest_resident(command, folder, environment):
    """Bytes of the largest process of a command."""
    before = "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True); " \
             "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.stderr.write(code.stderr); sys.exit(code.returncode)"
    ended = subprocess.run(["python3", "-c", before, *command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
    return int(ended.stdout.split()[-1]) * 1024


def measured(folder):
    """By node that has a plan: what was planned and what was counted; of trainings also what was reserved."""
    summary = json.loads((folder / "summary.json").read_text())
    reserved = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        metric = json.loads(line)
        if metric["name"] == "memory/reserved":
            reserved[metric["node"]] = max(reserved.get(metric["node"], 0), metric["value"])
    nodes = {}
    for node in summary["nodes"]:
        file = folder / "nodes" / node["id"] / "plan.json"
        if not file.exists():
            continue
        plan = json.loads(file.read_text())
        held = sum(one["bytes"] for one in plan.get("held", []))
        beside = {term["name"]: term["bytes"] for term in plan["terms"]}
        read = beside.get("loader", 0) + beside.get("data", 0) + beside.get("results", 0)
        nodes[node["id"]] = {"predicted": plan["predicted"], "tensors": plan["live"] + held + read, "reserved": plan["reserved"] + held + read, "margin": beside.get("margin", 0), "counted": node["peak_memory_bytes"], "counted_reserved": reserved.get(node["id"])}
    return nodes


def plans(arguments, results):
    retort = str(ROOT / "build/bin/retort")
    rows = [("", "planned MB", "margin", "tensors MB", "planned / it", "reserved MB", "planned / it", "process MB more")]
    results["plans"] = {}
    worst = {precision: 1.0 for precision in PRECISIONS}
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([retort, "data", "make", "image_folder", "--out", "photos", "--classes", "4", "--per-class", "20", "--size", "64", "-q"], cwd=place, check=True)
        for name, line in recipes(Path(place) / "photos").items():
            for processor, variables in PROCESSORS.items():
                for precision in PRECISIONS:
                    title = ", ".join(part for part in (name, precision, processor) if part)
                    environment = {**os.environ, **variables, "RETORT_CACHE": place + "/cache"}
                    words = [*line.split(), f"memory.precision={precision}"]
                    idle = largest_resident([retort, "plan", *words], ROOT, environment)
                    folder = Path(place) / f"run{len(results['plans'])}"
                    process = largest_resident([retort, "run", *words, f"run.dir={folder}"], ROOT, environment) - idle
                    nodes = measured(folder)
                    results["plans"][title] = {"nodes": nodes, "process_bytes": process}
                    for node, one in nodes.items():
                        share = one["tensors"] / one["counted"]
                        worst[precision] = max(worst[precision], share, 1 / share)
                        held = one["counted_reserved"]
                        rows.append((f"{title}: {node}", f"{one['predicted'] / 1e6:.2f}", f"{one['margin'] / one['predicted']:.1%}", f"{one['counted'] / 1e6:.2f}", f"{share:.4f}", f"{held / 1e6:.2f}" if held else "", f"{one['reserved'] / held:.4f}" if held else "", f"{process / 1e6:.1f}" if node == max(nodes, key=lambda id: nodes[id]["predicted"]) else ""))
    print("\nWhat recipes were planned to take, and took")
    table(rows)
    for precision, ratio in worst.items():
        print(f"  {precision}: the worst is {ratio:.4f} of the tensors counted; the aim is {WORST[precision]}")
