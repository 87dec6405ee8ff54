"""Planned memory of the shipped recipes on this machine's CPU, compared with the memory that training uses.

The promise: a plan is never below the counted bytes, on any processor and with any number of threads, and exceeds them by at most 5% in
the median over the recipes' networks, and by at most 35%.
"""

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from sides import table

ROOT = Path(__file__).resolve().parent.parent.parent
MEDIAN, WORST = 1.05, 1.35
THREADS = 2
# For one network of each kind, also with other numbers of threads and the kernels for other
# processors.
OTHER_THREADS = (1, 3)
PROCESSORS = {"SSE4.1": {"ONEDNN_MAX_CPU_ISA": "SSE41"}, "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "torch without vectors": {"ATEN_CPU_CAPABILITY": "default"}}
FEW = ("tiny", "SE-ResNeXt-50", "MobileNetV2", "Conv4")
DATA = {
    "photos": "image_folder --classes 4 --per-class 20 --size 224",
    "cars": "stanford_cars --classes 4 --per-class 24 --size 224",
    "retinas": "fundus_folders --per-class 16 --size 224",
    "episodes": "mini_imagenet --classes 20 --per-class 21 --size 84",
}


def networks(place, merges):
    """Command lines by network, with the recipe's image size and a batch that fits into 8 GB and a minute."""
    photos = f"data.root={place}/photos"
    graded = f"diabetic_retinopathy method=multi_class data.root={place}/retinas model.weights=null train.batch_size=16"
    episodes = f"fsct data.root={place}/episodes"
    tuned = f"finetune data=image_folder {photos} model=lora model.backbone.weights=null train.gradient_accumulation_steps=1 evaluate.batch_size=8"
    lines = {
        "tiny": f"classify {photos}",
        "CLIP ViT-B/32": f"classify model=clip_vit_b32 data.image_size=224 {photos}",
        "CLIP ViT-B/16": f"classify model=clip_vit_b16 data.image_size=224 {photos} train.batch_size=8",
        "ViT-B/16, LoRA": f"{tuned} model/backbone=vit_b16_hf train.batch_size=8",
        "CLIP ViT-L/14, LoRA": f"{tuned} model/backbone=clip_vit_l14 train.batch_size=4",
        "SE-ResNeXt-50": f"{graded} model=se_resnext50_32x4d",
        "DenseNet-121": f"{graded} model=densenet121",
        "ResNet-50": f"{graded} model=resnet50",
        "EfficientNet-B2": f"{graded} model=efficientnet_b2",
        "MobileNetV2": f"{graded} model=mobilenetv2_100",
        "Conv4": f"{episodes} model/backbone=conv4",
        "Conv6": f"{episodes} model/backbone=conv6",
        "ResNet-12": f"{episodes} model/backbone=resnet12 model.backbone.weights=null train.queries=2",
        "ResNet-18": f"{episodes} model/backbone=resnet18 model.backbone.weights=null train.queries=4",
        "ResNet-34": f"{episodes} model/backbone=resnet34 model.backbone.weights=null train.queries=4",
    }
    if merges:
        lines["CLIP, both towers"] = f"clip_cars data.root={place}/cars model.weights=null train.batch_size=16 model.tokenizer.merges={merges}"
    return lines


def trained(line, folder, environment):
    """Returns, in bytes, what the plan says training needs, the part of that for kernels, and what was reserved."""
    # Two steps. Images are neither prefetched nor cached: how many are in memory at the peak would be random.
    options = ["data.loader.workers=0", "data.cache_mib=0", "device=cpu", "--smoke", "--no-reuse", "-q", f"run.dir={folder}"]
    subprocess.run([ROOT / "build/bin/retort", "run", *line.split(), *options], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    plan = json.loads((folder / "nodes/train/plan.json").read_text())
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    reserved = max(one["value"] for one in metrics if one["node"] == "train" and one["name"] == "memory/reserved")
    nodes = {node["id"]: node["peak_memory_bytes"] for node in json.loads((folder / "summary.json").read_text())["nodes"]}
    scratch = sum(term["bytes"] for term in plan["terms"] if term["name"] == "kernel_scratch")
    return {"planned": plan["needed"], "scratch": scratch, "counted": max(reserved, nodes["train"])}


def plans(arguments, results):
    results["plans"] = {}
    rows = [("", "planned MB", "of that kernels", "counted MB", "planned / counted")]
    ratios = []
    with tempfile.TemporaryDirectory() as place:
        for name, options in DATA.items():
            subprocess.run([ROOT / "build/bin/retort", "data", "make", *options.split(), "--out", f"{place}/{name}", "-q"], check=True)
        merges = ROOT.parent / "shared/data/clip/bpe_simple_vocab_16e6.txt.gz"
        lines = networks(place, merges if merges.exists() else None)
        cases = [(name, THREADS, "", {}) for name in lines] + [(name, threads, "", {}) for name in FEW for threads in OTHER_THREADS]
        cases += [(name, THREADS, processor, variables) for name in FEW for processor, variables in PROCESSORS.items()]
        for name, threads, processor, variables in cases:
            title = ", ".join(part for part in (name, f"{threads} threads" if threads > 1 else "1 thread", processor) if part)
            environment = {**os.environ, **variables, "OMP_NUM_THREADS": str(threads), "RETORT_CACHE": f"{place}/cache"}
            with tempfile.TemporaryDirectory(dir=place) as folder:
                one = trained(lines[name], Path(folder) / "run", environment)
            results["plans"][title] = one
            ratios.append(one["planned"] / one["counted"])
            rows.append((title, f"{one['planned'] / 1e6:.1f}", f"{one['scratch'] / 1e6:.1f}", f"{one['counted'] / 1e6:.1f}", f"{ratios[-1]:.3f}"))
    print("\nPlanned and used memory of the recipes' networks")
    table(rows)
    median = statistics.median(ratios)
    print(f"  planned / counted: minimum {min(ratios):.3f} (at least 1), median {median:.3f} (at most {MEDIAN}), maximum {max(ratios):.3f} (at most {WORST})")
    if min(ratios) < 1 or median > MEDIAN or max(ratios) > WORST:
        print("  This breaks the promise.")
