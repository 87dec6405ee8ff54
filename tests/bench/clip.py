"""Contrastive training steps of CLIP B/32, compared with open_clip, and the contrastive loss in tiles, compared with the whole matrix.

Rows for --only: "77 tokens", "trimmed", "77 tokens, in quarters", "77 tokens, in quarters, of itself", "loss".
"""

import statistics
import sys
import tempfile
from pathlib import Path

from sides import Program, spread, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LARGEST_DIFFERENCE = 1e-3  # in the loss, between two sides that compute the same
WORDS = ("oak", "river", "stone", "cloud", "harbor", "meadow", "copper", "lantern")


def model_of(arguments):
    """CLIP B/32 with its published tokenizer."""
    merges = Path(arguments.merges).resolve()
    if not merges.is_file():
        sys.exit(f"bench: there is no merges file '{merges}': pass bpe_simple_vocab_16e6.txt.gz with --merges")
    image = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "patch_size": 32}
    text = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8}
    if arguments.tiny:
        image.update(hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4)
        text.update(hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4)
    return {"projection_dim": 512, "class_head": "none", "image": image, "text": text, "tokenizer": {"merges": str(merges), "context_length": 77}}


def sides_of(arguments, case, folder, both):
    """The programs for one way to compute a step; open_clip's only if requested."""
    options = {
        "folder": folder,
        "threads": arguments.threads,
        "image_size": 224,
        "captions": [f"a photo of a {WORDS[i % 8]} beside a {WORDS[i // 8 % 8]}, number {i}." for i in range(arguments.batch)],
        "steps": (arguments.blocks + 1) * arguments.steps + 8,
        "optimizer": {"learning_rate": 1e-5, "betas": [0.9, 0.999], "epsilon": 1e-8, "weight_decay": 0.01},
        "model": model_of(arguments),
        **case,
    }
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    sides = {"retort": Program([str(ROOT / "build/bin/clip_bench")], options, threads)}
    if both:
        sides["open_clip"] = Program([sys.executable, str(HERE / "clip_peer.py")], options, threads)
    return sides


def measured(arguments, sides):
    blocks = {name: [] for name in sides}
    for turn in range(arguments.blocks + 1):
        # The first block warms up; then the sides take turns going first.
        for name in sorted(sides, reverse=turn % 2 == 0):
            blocks[name].append(sides[name].block(arguments.steps if turn else 1))
    for program in sides.values():
        program.end()
    return blocks


def difference(one, other):
    """Returns the relative difference of two loss curves; exits if it is too large."""
    most = max(abs(a - b) / abs(b) for a, b in zip(*([loss for block in blocks for loss in block["losses"]] for blocks in (one, other))))
    if most > LARGEST_DIFFERENCE:
        sys.exit(f"bench: the losses of the two sides differ by a relative {most:.1e}")
    return most


def steps(arguments, results):
    """Steps with captions of 77 tokens, with trimmed captions, and with each side's method of embedding a batch in quarters."""
    rows = [("", "peer", "retort pairs/s", "spread", "peer pairs/s", "spread", "retort / peer time", "from", "to", "retort peak MB", "peer peak MB", "losses differ by")]
    whole = {"trims": False, "parts": 1}
    # Title, step, and what ours is compared with: open_clip, or our own step on the whole batch.
    cases = (
        ("77 tokens", whole, None),
        ("trimmed", {**whole, "trims": True}, None),
        ("77 tokens, in quarters", {**whole, "parts": 4}, None),
        ("77 tokens, in quarters", {**whole, "parts": 4}, whole),
    )
    tokens = None
    for title, case, against in cases:
        name = title + (", of itself" if against else "")
        if arguments.only and arguments.only != name:
            continue
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            sides = sides_of(arguments, case, folder, both=not against)
            if against:
                sides["whole"] = sides_of(arguments, against, other, both=False)["retort"]
            tokens = sides["retort"].started["tokens"]
            blocks = measured(arguments, sides)
        peer = next(side for side in sides if side != "retort")
        seconds = {side: [statistics.median(block["seconds"]) for block in parts[1:]] for side, parts in blocks.items()}
        ratios = sorted(a / b for a, b in zip(seconds["retort"], seconds[peer]))
        rates = [cell for side in ("retort", peer) for cell in (f"{arguments.batch / statistics.median(seconds[side]):.2f}", f"{spread(seconds[side]):.0%}")]
        peaks = [f"{blocks[side][-1]['peak_bytes'] / 1e6:.0f}" for side in ("retort", peer)]
        rows.append((title, peer, *rates, f"{statistics.median(ratios):.3f}", f"{ratios[0]:.3f}", f"{ratios[-1]:.3f}", *peaks, f"{difference(blocks['retort'], blocks[peer]):.0e}"))
        results["clip"][name] = blocks
    if len(rows) == 1:
        return
    size = "of small towers" if arguments.tiny else "of CLIP B/32"
    print(f"\nContrastive training step {size}, batch {arguments.batch}, distinct captions of up to {tokens} tokens, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps each, alternating; the aim is 0.85 of open_clip's time")
    print("  open_clip always reads 77 tokens; its quarters are --accum-freq 4")
    table(rows)


def loss(arguments, results):
    """The loss alone, in tiles and as a whole matrix."""
    if arguments.only and arguments.only != "loss":
        return
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    program = Program([str(ROOT / "build/bin/contrastive_loss_bench")], {"threads": arguments.threads, "pairs": [128, 256, 512, 1024, 4096, 8192]}, threads)
    program.block(1)
    blocks = [program.block(1) for _ in range(arguments.blocks)]
    program.end()
    print(f"\nContrastive loss of pairs of width 512, forward and backward, {arguments.threads} threads: {arguments.blocks} of each, alternating")
    rows = [("pairs", "tiles ms", "spread", "at once ms", "spread", "tiles / at once", "from", "to", "tiles MB", "at once MB", "tiles / at once")]
    for count in sorted((name for name in blocks[0] if name.isdigit()), key=int):
        runs = {way: [one for block in blocks for one in block[count][way]] for way in ("tiles", "at once")}
        for value in ("loss", "gradient"):
            if any(abs(a[value] - b[value]) > LARGEST_DIFFERENCE * abs(b[value]) for a, b in zip(*runs.values())):
                sys.exit(f"bench: the two implementations give different values for the {value} of {count} pairs")
        seconds = {way: [one["seconds"] for one in values] for way, values in runs.items()}
        ratios = sorted(a / b for a, b in zip(*seconds.values()))
        times = [cell for values in seconds.values() for cell in (f"{1000 * statistics.median(values):.1f}", f"{spread(values):.0%}")]
        peaks = [max(one["peak"] for one in values) for values in runs.values()]
        rows.append((count, *times, f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}", *(f"{peak / 1e6:.1f}" for peak in peaks), f"{peaks[0] / peaks[1]:.3f}"))
    table(rows)
    results["clip"]["loss"] = blocks


def clip(arguments, results):
    """Prints both tables."""
    results["clip"] = {}
    steps(arguments, results)
    loss(arguments, results)
