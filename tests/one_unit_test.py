#!/usr/bin/env python3
"""Compiles all sources of a half as one unit, without a warning.

A unity build combines sources by size, so a new file moves others from one unit to the next. Therefore any two sources of a
half must compile together: names in their anonymous namespaces must differ, and neither may capture calls meant for the
other's overloads.

    one_unit_test.py ROOT BUILD HALF    BUILD: a build folder of Ninja; HALF: runner or stages
"""

import json
import pathlib
import shlex
import subprocess
import sys

root, build, half = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
commands = json.loads(subprocess.check_output(["ninja", "-C", build, "-t", "compdb"]))
library = f"{half}/CMakeFiles/" + ("runner_core.dir/" if half == "runner" else "stages.dir/")
compilations = [
    shlex.split(each["command"])
    for each in commands
    if each["file"].endswith(".cxx" if "Unity" in each["output"] else ".cpp") and each["output"].startswith(library)
]
words = compilations[0]
compiler = next(i for i, word in enumerate(words) if pathlib.Path(word).name.startswith(("clang++", "g++", "c++")))
flags, rest = [], iter(words[compiler:])
for word in rest:
    if word in ("-o", "-c", "-MF", "-MT"):
        next(rest)
    elif word != "-MD":
        flags.append(word)
# The tree may be a copy of the one that the build folder belongs to.
cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
home = next(line.split("=", 1)[1] for line in cache.split("\n") if line.startswith("CMAKE_HOME_DIRECTORY"))
flags = [f"-I{root.resolve()}" if word == f"-I{home}" else word for word in flags]
# A library for only one source, such as OpenCV, is not among the include folders of the others.
folders = {b for each in compilations for a, b in zip(each, each[1:]) if a == "-isystem"} - set(flags)
flags += [word for folder in sorted(folders) for word in ("-isystem", folder)]

sources = sorted(path for path in (root / half).rglob("*.cpp") if path.name not in ("main.cpp", "worker_main.cpp"))
unit = "".join(f'#include "{path.relative_to(root)}"\n' for path in sources)
done = subprocess.run([*flags, "-Werror", "-fsyntax-only", "-x", "c++", "-"], input=unit, text=True, cwd=build)
if done.returncode != 0:
    print(f"the {len(sources)} sources of {half}/ do not compile as one unit: rename what collides")
sys.exit(1 if done.returncode else 0)
