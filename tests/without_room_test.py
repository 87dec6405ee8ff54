#!/usr/bin/env python3
"""Removes each room for one paper, and checks that everything else still works.

    without_room_test.py ROOT BUILD [ROOM...]    BUILD: a build folder of Ninja; without a ROOM: each

With a room, its lines in stages/stages.*, the schemas of its kinds, the recipes and presets that use these kinds, and the tests
that include its headers are removed. In what is left, stages/ must compile as one unit with the build's flags,
tests/layers_test.sh must pass, no test may include a removed header, and a newly built `retort` must compose each recipe.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()


def read(path):
    return path.read_text(encoding="utf-8")


def paper_rooms():
    return re.search(r'^readonly paper_rooms="([a-z_ ]+)"', read(root / "tests/layers_test.sh"), re.M).group(1).split()


def copy_tree(folder):
    """Copies the files that git tracks."""
    listed = subprocess.check_output(["git", "-C", root, "ls-files", "-z"], text=True).split("\0")
    for name in filter(None, listed):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, folder / name)


def remove_lines(path, is_removed):
    """Removes lines from a file; exits if there are none to remove."""
    lines = read(path).split("\n")
    kept = [line for line in lines if not is_removed(line)]
    if len(kept) == len(lines):
        raise SystemExit(f"{path.name} has no line of the room")
    path.write_text("\n".join(kept), encoding="utf-8")


def remove_code(tree, room):
    """Removes the sources of a room and its lines in the tables; returns its kinds, such as data.few_shot."""
    names, kinds = set(), set()
    for path in (tree / "stages" / room).iterdir():
        text = read(path)
        if path.suffix == ".h":
            names |= set(re.findall(r"^(?:extern const \w+ |[\w:<>&* ]+ )(\w+)[;(]", text, re.M))
        for name, kind in re.findall(r'StageKind (k\w+) = \{(?:\.name = )?"([a-z0-9_.]+)"', text):
            names.add(name)
            kinds.add(kind)
    shutil.rmtree(tree / "stages" / room)
    for name in ("stages.h", "stages.cpp"):
        remove_lines(
            tree / "stages" / name,
            lambda line: f'"stages/{room}/' in line or names & set(re.findall(r"\w+", line.partition("//")[0])),
        )
    layers = tree / "tests/layers_test.sh"
    layers.write_text(re.sub(rf"^(readonly (?:paper|stages)_rooms=.*)\b{room} ?", r"\1", read(layers), flags=re.M))
    return kinds


def remove_schemas(tree, kinds):
    for kind in kinds:
        (tree / "schemas" / (kind.replace(".", "/") + ".schema.json")).unlink()


def uses(text, kinds, gone):
    """Returns whether a recipe or a group's config uses one of the kinds, or a removed config."""
    if set(re.findall(r"\bkind: ([a-z0-9_.]+)", text)) & kinds:
        return True
    defaults = re.search(r"^defaults:\n((?:[ -].*\n)*)", text, re.M)
    for group, name in re.findall(r"- (?:override )?/?([\w/@.]+): *([\w/]+)", defaults.group(1) if defaults else ""):
        if f"{group.partition('@')[0]}/{name}" in gone:
            return True
    return any(name in gone for name in re.findall(r"^ *- ([a-z_0-9]+)\b(?!:)", defaults.group(1) if defaults else "", re.M))


def remove_recipes(tree, kinds):
    """Removes recipes that use the kinds, then those that use a removed one; returns the remaining recipes and presets."""
    gone, before = set(), None
    while before != len(gone):
        before = len(gone)
        for folder in ("recipes", "experiments"):
            for path in (tree / folder).rglob("*.yaml"):
                if uses(read(path), kinds, gone):
                    gone.add(str(path.relative_to(tree / folder).with_suffix("")))
                    path.unlink()
    return [path.stem for folder in ("recipes", "experiments") for path in sorted((tree / folder).glob("*.yaml"))]


def remove_tests(tree, room):
    shutil.rmtree(tree / "tests/stages" / room)
    for path in (tree / "tests").rglob("*"):
        if path.suffix in (".h", ".cpp", ".cu") and f'#include "stages/{room}/' in read(path):
            path.unlink()
    for path in (tree / "experiments").rglob("*.cpp"):
        if f'#include "stages/{room}/' in read(path):
            raise SystemExit(f"{path.relative_to(tree)} includes stages/{room}/")


def check(command, tree):
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def try_without(room, tree):
    copy_tree(tree)
    kinds = remove_code(tree, room)
    remove_schemas(tree, kinds)
    recipes = remove_recipes(tree, kinds)
    remove_tests(tree, room)
    check([tree / "tests/layers_test.sh", tree], tree)
    check([sys.executable, tree / "tests/one_unit_test.py", tree, build, "stages"], tree)
    check(["cmake", "--preset", "release", "-DRETORT_STAGES=OFF"], tree)
    check(["cmake", "--build", "build", "--target", "retort"], tree)
    retort = tree / "build/bin/retort"
    check([retort, "stages"], tree)
    for name in recipes:
        check([retort, "config", "show", name], tree)
    print(f"without stages/{room}/ ({', '.join(sorted(kinds))}): {len(recipes)} recipes and presets compose")


failed = []
for room in sys.argv[3:] or paper_rooms():
    with tempfile.TemporaryDirectory() as place:
        try:
            try_without(room, pathlib.Path(place).resolve() / "tree")
        except SystemExit as error:
            failed.append(room)
            print(f"without stages/{room}/: {error}")
sys.exit(f"these rooms cannot be removed: {', '.join(failed)}" if failed else 0)
