#!/usr/bin/env python3
"""Checks that no two sources that are compiled as one unit declare the same name at the start of a line.

A class declared twice does not compile, but one of two functions may silently capture the calls of the other.

    units_test.py BUILD    BUILD: a build folder
"""

import pathlib
import re
import sys

DECLARED = re.compile(r"^(?:struct|class|enum class)\s+(\w+)|^[\w:<>,&*\s\[\]]*?[\s&*](\w+)\s*[(={;\[]")
OTHER = re.compile(r"^(?:TEST|TYPED_TEST|INSTANTIATE|NEEDS|MATCHER|namespace|using|template|return|[\s}/#])")
ALLOWED = {"PrintTo"}  # overloaded for a type in the same file


def declared(path):
    text = re.sub(r'R"(\w*)\(.*?\)\1"', "", path.read_text(encoding="utf-8"), flags=re.S)
    lines = (line for line in text.split("\n") if line and not OTHER.match(line))
    matches = (DECLARED.match(line) for line in lines)
    return {match[1] or match[2] for match in matches if match} - ALLOWED


faults = 0
units = sorted(pathlib.Path(sys.argv[1]).glob("tests/CMakeFiles/*.dir/Unity/*.cxx"))
for unit in units:
    places = {}
    for source in re.findall(r'#include "(.*)"', unit.read_text(encoding="utf-8")):
        for name in declared(pathlib.Path(source)):
            places.setdefault(name, []).append(source)
    for name, sources in places.items():
        if len(sources) > 1:
            faults += 1
            print(f"'{name}' is declared in each of these, which are compiled as one unit: {' '.join(sources)}")
if not units:
    print("skipped: the tests are not compiled as a unity build")
    sys.exit(77)
sys.exit(1 if faults else 0)
