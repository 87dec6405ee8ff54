"""Writes the figures that test-gpu has measured as a page in Markdown."""


def page(figures: dict) -> str:
    """Returns the page for the contents of figures.json."""
    failed = {name: part for name, part in figures.items() if not part.get("passed", True)}
    sections = [
        f"# Retort on {gpu_of(figures)}",
        f"{len(figures) - len(failed)} of {len(figures)} parts passed, in {sum(part['seconds'] for part in figures.values()):.0f} s.",
        titled("Failed", table(("part", "reason"), [(name, reason(part)) for name, part in failed.items()])),
        titled("Memory, planned and used, in MiB", table(
            ("training", "stage", "live", "used", "reserved", "used", "needed", "seen by nvidia-smi"), memory_rows(figures))),
        titled("Speed", table(("training", "Retort", "PyTorch", "Retort / PyTorch"), speed_rows(figures))),
        titled("Other parts", table(("part", "result", "seconds"), [
            (name, "FAILED" if name in failed else "passed", f"{part['seconds']:.0f}")
            for name, part in figures.items() if not stages_of(part)])),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def gpu_of(figures: dict) -> str:
    """Returns the name, driver, memory and compute capability of the GPU."""
    said = figures.get("machine", {}).get("gpu", "").splitlines()
    if not said or said[0].count(",") != 4:
        return "an unknown GPU"
    name, driver, total, _, capability = (word.strip() for word in said[0].split(","))
    return f"{name} ({total}, compute capability {capability}, driver {driver})"


def reason(part: dict) -> str:
    lines = part.get("output", "").strip().splitlines()
    return part.get("why") or (lines[-1] if lines else f"exit code {part.get('exit', 'unknown')}")


def stages_of(part: dict) -> dict:
    return {name: value for name, value in part.items() if isinstance(value, dict) and "taken reserved" in value}


def memory_rows(figures: dict) -> list[tuple]:
    rows = []
    for name, part in figures.items():
        for stage, bytes_of in stages_of(part).items():
            seen = part.get("nvidia-smi MiB", "")
            rows.append((name, stage, *(f"{bytes_of[key]:.1f}" for key in (
                "live", "taken live", "reserved", "taken reserved", "needed")), seen))
    return rows


def speed_rows(figures: dict) -> list[tuple]:
    """Returns a row for each comparison with PyTorch: `speed X` with `speed X, FORM in Python`."""
    rows = []
    for name, part in figures.items():
        ours, _, form = name.partition(", ")
        if not form.endswith(" in Python") or "images per second" not in part:
            continue
        rate = rate_of(figures.get(ours, {}))
        theirs = part["images per second"]
        training, form = ours.removeprefix("speed "), form.removesuffix(" in Python")
        rows.append((f"{training}, {form}", f"{rate:.1f} images/s" if rate else "not measured", f"{theirs:.1f} images/s",
                     f"{rate / theirs:.3f}" if rate else ""))
    return rows


def rate_of(part: dict) -> float:
    said = part.get("rate", "").split(" ")[0].replace(",", "")
    return float(said) if said else 0.0


def titled(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def table(heads: tuple, rows: list[tuple]) -> str:
    """Returns a table, or nothing if it has no rows."""
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell(value) for value in line) + " |" for line in lines)


def cell(value) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
