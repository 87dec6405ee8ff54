#!/usr/bin/env python3
"""Takes each room of one paper away, with its lines in stages/stages.cpp, and compiles what is left.

    without_room_test.py ROOT BUILD    BUILD: a build folder of Ninja

A room can go where nothing else includes its headers or names its kinds. What is left of stages/ is checked as one
unit, with the flags of the build.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
layers = (root / "tests/layers_test.sh").read_text(encoding="utf-8")
rooms = re.search(r'^readonly paper_rooms="([a-z_ ]+)"', layers, re.M).group(1).split()


def without(folder, room):
    """Takes a room out of a copy of the tree."""
    headers = "".join(path.read_text(encoding="utf-8") for path in (folder / "stages" / room).glob("*.h"))
    names = set(re.findall(r"^(?:extern const \w+ |[\w:<>&* ]+ )(\w+)[;(]", headers, re.M))
    for path in (folder / "stages" / room).glob("*.cpp"):
        names |= set(re.findall(r"StageKind (k\w+) =", path.read_text(encoding="utf-8")))
    shutil.rmtree(folder / "stages" / room)
    for name in ("stages.h", "stages.cpp"):
        path = folder / "stages" / name
        lines = path.read_text(encoding="utf-8").split("\n")
        kept = [
            line
            for line in lines
            if f'"stages/{room}/' not in line and not names & set(re.findall(r"\w+", line.partition("//")[0]))
        ]
        if len(kept) == len(lines):
            sys.exit(f"stages/{name} has no line of stages/{room}/")
        path.write_text("\n".join(kept), encoding="utf-8")


failed = []
for room in rooms:
    with tempfile.TemporaryDirectory() as place:
        copy = pathlib.Path(place) / "tree"
        for half in ("runner", "stages"):
            shutil.copytree(root / half, copy / half)
        (copy / "tests").mkdir()
        without(copy, room)
        check = [sys.executable, root / "tests/one_unit_test.py", copy, build, "stages"]
        done = subprocess.run(check, capture_output=True, text=True)
        if done.returncode != 0:
            failed.append(room)
            print(f"without stages/{room}/:\n{done.stdout}{done.stderr}")
sys.exit(f"these rooms cannot go: {', '.join(failed)}" if failed else 0)
