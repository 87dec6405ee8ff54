#!/usr/bin/env python3
"""Holds README.md and docs/ to the tree and to the program.

    docs_test.py links ROOT               links and file names lead somewhere, every page is linked, README is short
    docs_test.py commands ROOT RETORT     every command is run, or read by the command line and its recipe validated

A fence says what is done with the lines of its block:

    ```sh run       each line runs, in a folder of the page's own that has `photos` (a folder of class folders), `RUN` and
                    `RUN2` (finished runs of the quick start); it ends with 0, or with N where its comment says "exit code N"
    ```sh long      flags and recipe are checked; only data and weights that are missing here may be missing
    ```sh system    changes the machine: each script, preset and flag that it names exists

A block of YAML that begins with `# NAME.yaml` is written to that file. `retort ...` inside a sentence has a verb and flags
that exist.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

README_LINES, README_COLUMNS = 130, 120
GENERATED = {"docs/cli.md"}  # and docs/reference: their words are the program's own
RECIPE_VERBS = {"run", "sweep", "plan", "certify", "validate", "graph"}
failures = []


def fail(place, text):
    failures.append(f"{place}: {text}")


def pages(root):
    """The pages that are written for readers, by their names."""
    paths = [root / "README.md", root / "recipes/README.md"]
    paths += [root / "schemas/README.md", *sorted((root / "docs").rglob("*.md"))]
    paths += sorted((root / "experiments").glob("*/README.md")) + sorted((root / "tests").glob("*/README.md"))
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths if path.exists()}


def is_generated(name):
    return name in GENERATED or name.startswith("docs/reference/")


def parts(text):
    """Prose and blocks: (line number, info of the fence or None, text)."""
    info, lines, start = None, [], 1
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif info is None:
            yield start, None, "\n".join(lines)
            info, lines, start = line[3:].strip(), [], number + 1
        else:
            yield start, info, "\n".join(lines)
            info, lines, start = None, [], number + 1
    yield start, info, "\n".join(lines)


def prose_of(text):
    return "\n".join(part for _, info, part in parts(text) if info is None)


# Links


def slug(heading):
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).strip().lower()).replace(" ", "-")


def slugs(text):
    return {slug(line.lstrip("#")) for line in prose_of(text).split("\n") if re.match(r"#+ ", line)}


def check_links(root):
    texts = pages(root)
    linked = set()
    for name, text in texts.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            found = (root / name).parent / path if path else root / name
            if not found.exists():
                fail(name, f"nothing is at {target}")
                continue
            there = os.path.relpath(found.resolve(), root.resolve())
            if there != name:
                linked.add(there)
            if anchor and found.suffix == ".md" and anchor not in slugs(found.read_text(encoding="utf-8")):
                fail(name, f"no heading is at {target}")
    for name in texts:
        if name.startswith("docs/") and name not in linked:
            fail(name, "no page links here")
    check_names_of_code(root, texts)
    check_words(texts)
    check_glossary(root, texts.get("docs/glossary.md", ""))
    readme = texts["README.md"].rstrip("\n").split("\n")
    if len(readme) > README_LINES:
        fail("README.md", f"has {len(readme)} lines, more than {README_LINES}: move something to docs/")
    for number, line in enumerate(readme, 1):
        if len(line) > README_COLUMNS:
            fail(f"README.md:{number}", f"has {len(line)} columns, more than {README_COLUMNS}")


def check_names_of_code(root, texts):
    """A source that a page about the code names is there (the whole path, or a file of that name), and so is a function."""
    files = [path for half in ("runner", "stages", "tests") for path in (root / half).rglob("*") if path.is_file()]
    known = {path.name for path in files}
    code = "\n".join(
        path.read_text(encoding="utf-8") for path in files if path.suffix in (".h", ".cpp") and "tests" not in path.parts
    )
    functions = set(re.findall(r"\b(\w+)\(", code))
    for name in ("docs/architecture.md", "docs/decisions.md", "docs/CONTRIBUTING.md"):
        prose = prose_of(texts.get(name, ""))
        for file in re.findall(r"`([\w./-]+\.(?:cpp|h|sh|py|json|yaml|case))`", prose):
            if "NAME" not in file and not ((root / file).exists() if "/" in file else file in known):
                fail(name, f"there is no {file}")
        for function in re.findall(r"`(?:\w+::)*(\w+)\(\)`", prose):
            if function not in functions:
                fail(name, f"there is no function {function}()")


def check_glossary(root, text):
    """Types of the code and keys of recipes have no word that the glossary replaces everywhere."""
    replaced = set()
    for row in re.findall(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", text, re.M)[1:]:
        replaced.update(word.strip() for word in row.split(","))
    replaced &= {"picture", "photograph", "job", "multirun", "subcommand", "iteration", "subset", "fold"}
    names = {}
    for half in ("runner", "stages"):
        for path in (root / half).rglob("*.h"):
            for name in re.findall(r"^\s*(?:class|struct|enum class) (\w+)", path.read_text(encoding="utf-8"), re.M):
                names[name] = str(path.relative_to(root))
    for path in (root / "schemas").glob("*/**/*.schema.json"):
        if "output" not in path.parts and "editor" not in path.parts:
            for keys in re.findall(r'"(\w+)": \{"(?:type|\$ref|description)"', path.read_text(encoding="utf-8")):
                names[keys] = str(path.relative_to(root))
    if not names or not replaced:
        fail("docs/glossary.md", "no names or no words were found to compare")
    for name, place in sorted(names.items()):
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
        if found := {word for word in replaced if word in words or word + "s" in words}:
            fail(place, f"'{name}' has a word that docs/glossary.md replaces: {', '.join(sorted(found))}")


def check_words(texts):
    """Words that stand for no idea of their own, in pages that people write."""
    for name, text in texts.items():
        if is_generated(name) or name.startswith("tests/") or name == "docs/glossary.md":
            continue
        made = False  # between the markers of a program that writes them
        for number, line in enumerate(text.split("\n"), 1):
            if marker := re.match(r"<!-- \w+: (begin|end) -->", line):
                made = marker.group(1) == "begin"
            if made:
                continue
            line = re.sub(r"`[^`]*`", "", line)
            if found := re.search(r"\b(beside|besides|likewise|heed|whose|nobody|thereof|wherein)\b", line, re.I):
                fail(f"{name}:{number}", f"`{found.group()}`: say it in plain words")
            if not name.startswith("experiments/") and (found := re.search(r"\b(picture|photograph)s?\b", line, re.I)):
                fail(f"{name}:{number}", f"`{found.group()}`: the glossary's word is image; what Retort draws is a drawing")


# Commands


class Program:
    def __init__(self, retort, place):
        self.bin = place / "bin"
        self.bin.mkdir()
        (self.bin / "retort").symlink_to(pathlib.Path(retort).resolve())
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("RETORT")}
        self.environment.update(
            PATH=f"{self.bin}:{os.environ['PATH']}", HOME=str(place), RETORT_CACHE=str(place / "cache"), NO_COLOR="1"
        )
        self.folder = place

    def run(self, line, folder):
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True,
        )

    @functools.cache
    def help(self, verb):
        said = self.run(f"retort {verb} --help" if verb else "retort --help", self.folder)
        return said.stdout if said.returncode == 0 else ""

    @functools.cache
    def verbs(self):
        return set(re.findall(r"^  ([a-z-]+) {2,}", self.help(""), re.M))

    @functools.cache
    def exit_of(self, code):
        return int(re.search(r"Exit code: (\d+)", self.run(f"retort explain {code}", self.folder).stdout).group(1))


def command_words(line):
    """The words of the first command of a line, up to a pipe or an `&&`; without NAME=VALUE before it."""
    words = []
    for word in shlex.split(line, comments=True):
        if word in ("|", "&&", ";", ">"):
            break
        words.append(word)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    return words


def check_usage(program, place, words):
    """The verb and the flags of `retort ...` exist; returns the verb."""
    if len(words) < 2 or words[1].startswith("-") or not re.fullmatch(r"[a-z-]+", words[1]):
        return None
    verb = words[1]
    if verb not in program.verbs():
        fail(place, f"there is no verb {verb}")
        return None
    for flag in (re.match(r"--?[a-z][a-z-]*", word) for word in words[2:]):
        if flag and not re.search(rf"(?<![\w-]){re.escape(flag.group())}(?![\w-])", program.help(verb)):
            fail(place, f"`retort {verb}` has no flag {flag.group()}")
    return verb


def check_long(program, place, line, folder):
    words = command_words(line)
    if not words or words[0] != "retort":
        return fail(place, f"is no command of retort: {line}")
    verb = check_usage(program, place, words)
    if verb not in RECIPE_VERBS:
        return
    # The real verb reads the line: all of `run` and `sweep` but the running.
    if verb == "run":
        said = program.run(shlex.join([*words, "--cfg", "job"]), folder)
        if said.returncode == 64:
            fail(place, f"{line}\n{said.stderr}")
    if verb == "sweep" and "ask-tell" not in words and "resume" not in words:
        words = [word for word in words if word != "--json"] + ["--dry-run", "--json"]
        check_missing_only(program, place, line, program.run(shlex.join(words), folder))
    elif verb != "sweep":
        taken = [word for word in words[2:] if not word.startswith("-") and (word.count("=") or word == first_word(words))]
        check_missing_only(program, place, line, program.run(shlex.join(["retort", "validate", "--json", *taken]), folder))


def first_word(words):
    return next((word for word in words[2:] if not word.startswith("-") and "=" not in word), None)


def check_missing_only(program, place, line, said):
    if said.returncode == 0:
        return
    try:
        errors = json.loads(said.stdout)["errors"]
    except ValueError:
        return fail(place, f"{line}\n{said.stdout}{said.stderr}")
    for error in errors:
        if error["code"] == "E0201" or program.exit_of(error["code"]) != 66:
            fail(place, f"{line}\n  {error['code']}: {error['message']}")


def check_system(root, place, line):
    presets = {preset["name"] for preset in json.loads((root / "CMakePresets.json").read_text())["configurePresets"]}
    words = shlex.split(line, comments=True)
    script = None
    for index, word in enumerate(words):
        if re.match(r"(\$\()?(scripts|tests|experiments|\.ci)/", word):
            script = root / word.removeprefix("$(").rstrip(")")
            if not script.exists():
                fail(place, f"there is no {word}")
                script = None
        elif word == "--preset" and words[index + 1] not in presets:
            fail(place, f"there is no preset {words[index + 1]}")
        elif word.startswith("--") and script and script.is_file():
            texts = [script, *sorted((root / "tests/bench").glob("*.py"))] if script.name == "bench" else [script]
            if not any(word.split("=")[0] in text.read_text(encoding="utf-8") for text in texts):
                fail(place, f"{script.name} knows no {word}")


def lines_of(start, block):
    """The commands of a block with their line numbers; a line that ends in a backslash goes on."""
    command, first = "", start
    for number, line in enumerate(block.split("\n"), start):
        if not command:
            first = number
        command += line
        if command.endswith("\\"):
            command = command[:-1] + " "
            continue
        if command.strip() and not command.lstrip().startswith("#"):
            yield first, command
        command = ""


def check_run(program, place, line, folder):
    if "retort " in line:
        check_usage(program, place, command_words(line))
    wanted = re.search(r"#.*exit code (\d+)", line)
    begin = time.monotonic()
    said = program.run(line, folder)
    if os.environ.get("DOCS_TEST_TIMES"):
        print(f"{time.monotonic() - begin:6.2f} s  {place}: {line}")
    if said.returncode != (int(wanted.group(1)) if wanted else 0):
        fail(place, f"ends with {said.returncode}: {line}\n{said.stdout[-600:]}{said.stderr[-900:]}")


def check_features(program, text, folder):
    """The options in README's table of features are options: of its recipe, or of some kind."""
    table = text.split("## What it can do")[1].split("##")[0]
    for code in re.findall(r"`([a-z_./]+(?:=[^`]+)?)`", table):
        line = f"retort validate flowers.yaml {code}" if "=" in code else f"retort explain {code}"
        if (said := program.run(line, folder)).returncode != 0:
            fail("README.md", f"{code} is no option\n{said.stderr}")


def check_page(program, root, name, text, folder):
    counts = {"run": 0, "long": 0, "system": 0}
    for start, info, block in parts(text):
        if info is None:
            for code in re.findall(r"`(retort [^`]+)`", block):
                try:
                    check_usage(program, name, command_words(code))
                except ValueError:
                    pass  # an apostrophe in a placeholder
            continue
        file = re.match(r"# ([\w-]+\.yaml)\n", block)
        if info == "yaml" and file:
            (folder / file.group(1)).write_text(block + "\n", encoding="utf-8")
        how = info.split(" ", 1)
        if how[0] not in ("sh", "bash", "console", "shell"):
            if re.search(r"^\$? *retort [a-z]", block, re.M):
                fail(f"{name}:{start}", "a command stands in a block that is not `sh run`, `sh long` or `sh system`")
            continue
        if info not in ("sh run", "sh long", "sh system"):
            fail(f"{name}:{start}", f"the fence `{info}` does not say run, long or system (a picture of text: text)")
            continue
        for number, line in lines_of(start, block):
            counts[how[1]] += 1
            place = f"{name}:{number}"
            if how[1] == "run":
                check_run(program, place, line, folder)
            elif how[1] == "long":
                check_long(program, place, line, folder)
            else:
                check_system(root, place, line)
    return counts


def check_commands(root, retort):
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        program = Program(retort, place)
        for line in (
            "retort data make image_folder --out photos --classes 3 --per-class 20",
            "retort run quickstart --smoke -q run.dir=RUN",
            "retort run quickstart --smoke -q seed=1 run.dir=RUN2",
        ):
            said = program.run(line, place)
            if said.returncode != 0:
                sys.exit(f"{line} ends with {said.returncode}\n{said.stderr}")
        total = {"run": 0, "long": 0, "system": 0}

        def check(name, text):
            folder = place / "pages" / name.replace("/", "_")
            folder.mkdir(parents=True)
            for shared in ("photos", "outputs"):
                (folder / shared).symlink_to(place / shared)
            for run in ("RUN", "RUN2"):
                subprocess.run(["cp", "-r", place / run, folder / run], check=True)
            counts = check_page(program, root, name, text, folder)
            if name == "README.md":
                check_features(program, text, folder)
            return counts

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(check, *page) for page in pages(root).items() if not is_generated(page[0])]:
                for how, number in future.result().items():
                    total[how] += number
    print(f"{total['run']} commands run, {total['long']} checked, {total['system']} of the machine")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "links":
        check_links(pathlib.Path(sys.argv[2]))
    elif len(sys.argv) == 4 and sys.argv[1] == "commands":
        check_commands(pathlib.Path(sys.argv[2]), sys.argv[3])
    else:
        print(__doc__)
        return 64
    for failure in failures:
        print(failure)
    return 1 if failures else 0


sys.exit(main())
