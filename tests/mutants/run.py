#!/usr/bin/env python3
"""Breaks one line at a time and checks that the tests notice.

The files next to this one contain the mutants of one room each; README.md describes their format. Every mutant is
inserted into a copy of the source tree, the programs that it affects are built there, and the tests that it names are run:
they must fail. The checkout is never changed, and the build of the copy is kept for the next time.
"""

import argparse
import concurrent.futures
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

from mutant import read_mutants

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
# The test programs, with the folders of their sources, and the targets that they need.
PROGRAMS = {
    "runner_tests": (["tests/runner"], ["runner_tests", "fake_worker", "retort"]),
    "stages_tests": (["tests/stages"], ["stages_tests"]),
    "stand_in_tests": (["tests/support/stand_in", "tests/stages"], ["stand_in_tests"]),
    "end_to_end_tests": (["tests/end_to_end"], ["end_to_end_tests", "retort", "retort-worker", "unsteady_worker"]),
}
TEST_SECONDS = 120  # CPU time per mutant; exceeding it counts as detected
ALL_SECONDS = 3600  # CPU time for all tests that mutants name, without a mutant
WAIT = 2  # the elapsed time may be this many times as long, since the machine may be busy
TEST_BYTES = 16 << 30  # private writable memory of a process; exceeding it counts as detected


def mutants_here():
    """Returns the name and text of each room."""
    return [(path.stem, path.read_text()) for path in sorted(HERE.glob("*.mutants"))]


def mutants_at(commit):
    """Returns the name and text of each room in a commit."""
    git, here = ["git", "-C", SOURCE], HERE.relative_to(SOURCE)
    listed = subprocess.run([*git, "ls-tree", "--name-only", commit, f"{here}/"], capture_output=True, text=True)
    if listed.returncode != 0:
        sys.exit(f"'{commit}' is not a commit: {listed.stderr.strip()}")
    paths = [pathlib.Path(line) for line in listed.stdout.splitlines() if line.endswith(".mutants")]
    return [(path.stem, subprocess.check_output([*git, "show", f"{commit}:{path}"], text=True)) for path in paths]


# --- the check


def tests_in(folders):
    """Returns the names of all tests in some folders as in GoogleTest; parameterized ones up to the parameter."""
    plain, suites, prefixes = set(), {}, {}
    for path in sorted(path for folder in folders for path in (SOURCE / folder).rglob("*_test.cpp")):
        text = path.read_text()
        plain.update(f"{s}.{n}" for s, n in re.findall(r"^TEST(?:_F)?\(\s*(\w+),\s*(\w+)\)", text, flags=re.M))
        for suite, name in re.findall(r"^(?:TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\)", text, flags=re.M):
            suites.setdefault(suite, []).append(name)
        for prefix, suite in re.findall(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w*),\s*(\w+)", text, flags=re.M):
            prefixes.setdefault(suite, []).append(prefix)
    for suite, names in suites.items():
        plain.update(f"{prefix}{'/' * bool(prefix)}{suite}.{name}/" for prefix in prefixes.get(suite, []) for name in names)
    return plain


def names_a_test(pattern, tests):
    return any(fnmatch.fnmatchcase(test, pattern) or fnmatch.fnmatchcase(test + "0", pattern) or
               (test.endswith("/") and pattern.startswith(test)) for test in tests)


def elsewhere(mutant):
    found = [str(path.relative_to(SOURCE)) for room in ("runner", "stages") for path in (SOURCE / room).rglob("*")
             if path.suffix in (".h", ".cpp") and mutant.places(path.read_text())]
    return f"; it is in {', '.join(found)}" if found else ""


def complaints(mutants):
    """Returns the errors in how the mutants are written."""
    found, seen, tests = [], set(), {}
    for mutant in mutants:
        def complain(what):
            found.append(f"{mutant.title}: {what}")

        if mutant.title in seen:
            complain("another mutant has the same name")
        seen.add(mutant.title)
        path = SOURCE / mutant.file
        places = len(mutant.places(path.read_text())) if path.is_file() else 0
        if not mutant.file.startswith(("runner/", "stages/")) or not path.is_file():
            complain(f"there is no file '{mutant.file}'{elsewhere(mutant)}")
        elif places != 1:
            complain(f"the old text occurs {places} times in {mutant.file}" + ("" if places else elsewhere(mutant)))
        if mutant.old.split() == mutant.new.split():
            complain("it changes nothing")
        if not mutant.tests:
            complain("it names no tests")
        for program, patterns in mutant.tests:
            if program not in PROGRAMS:
                complain(f"there is no test program '{program}'")
                continue
            if program not in tests:
                tests[program] = tests_in(PROGRAMS[program][0])
            for pattern in patterns.split(":"):
                if not names_a_test(pattern, tests[program]):
                    complain(f"{program} has no test '{pattern}'")
    return found


# --- the copy, and building in it


def digest_of_tree():
    """Returns a digest of the sources of mutants and tests, without the mutants themselves."""
    digest = hashlib.sha256()
    for path in sorted(p for top in ("runner", "stages", "schemas", "tests") for p in (SOURCE / top).rglob("*")
                       if p.is_file() and HERE not in p.parents):
        digest.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


# Compiled into the copy: whether a mutant is active.
SWITCH_IN = "runner/shared/disk/installation.cpp"
SWITCH = """
#include <cstdlib>
#include <string_view>
bool retort_mutant(const char* name) {
  static const char* const awake = std::getenv("RETORT_MUTANT");
  return awake && std::string_view(awake) == name;
}
"""


def guarded(text, mutants):
    """Returns `text` with as many of its mutants as possible, each dormant until RETORT_MUTANT contains its name."""
    reached, behind, last = len(text) + 1, "", None
    changes = [(*found, mutant) for mutant in mutants if (found := mutant.guard(text))]
    for place, both, mutant in sorted(changes, key=lambda change: change[0].start(), reverse=True):
        if last and place.span() == last[0].span() and place[0] in both:
            head, _, tail = both.rpartition(place[0])  # for the same text: while this one is dormant, the other chooses
            both, reached = head + last[1] + tail, place.end()
        elif place.end() > reached:
            continue  # it overlaps another one
        else:
            behind = text[place.end() :]
        text, reached, last = text[: place.start()] + both + behind, place.start(), (place, both)
        mutant.is_asleep = True
    return "extern bool retort_mutant(const char* name);\n" + text if changes else text


def copy_tree(to, mutants):
    """Copies the checkout to `to`, with dormant mutants. Unchanged files keep their time stamps, so that they are not
    built again."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                            capture_output=True).stdout.decode().split("\0")
    by_file = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    names = {name for name in listed if name and (SOURCE / name).is_file()}
    for name in names:
        source, target = SOURCE / name, to / name
        wanted = source.read_bytes()
        if name in by_file:
            wanted = guarded(wanted.decode(), by_file[name]).encode()
        if name == SWITCH_IN:
            wanted += SWITCH.encode()
        if target.is_file() and target.read_bytes() == wanted:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(wanted)
        target.chmod(source.stat().st_mode & 0o777)
    for top in ("runner", "stages", "schemas", "recipes", "tests", "experiments"):
        for path in (to / top).rglob("*"):
            if path.is_file() and str(path.relative_to(to)) not in names:
                path.unlink()


class Bench:
    """The copy of the tree, where mutants are built and tested."""

    def __init__(self, place, everyone, jobs):
        self.tree, self.build, self.jobs, self.everyone = place, place / "build", jobs, everyone

    def prepare(self):
        copy_tree(self.tree, self.everyone)
        # Files of mutants that need a build are compiled separately, so that a mutant rebuilds one file and not a dozen.
        alone = sorted({m.file for m in self.everyone if m.file.endswith(".cpp") and not m.is_asleep})
        # Configured like the checkout: without LibTorch, only mutants of runner/ can be tested.
        cache = SOURCE / "build/CMakeCache.txt"
        settings = dict(re.findall(r"^(RETORT_\w+):\w+=(.*)$", cache.read_text() if cache.is_file() else "", flags=re.M))
        options = [f"-D{name}={settings[name]}" for name in ("RETORT_STAGES", "RETORT_LIBTORCH") if name in settings]
        options += ["-DRETORT_ALONE=" + ";".join(alone),
                    f"-DCMAKE_PROJECT_retort_INCLUDE={self.tree}/tests/mutants/alone.cmake"]
        command = ["cmake", "--preset", "release", *options]
        done = subprocess.run(command, cwd=self.tree, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit("cannot configure:\n" + done.stdout + done.stderr)

    def compile(self, programs):
        """Returns the compiler's output if it failed; empty if it succeeded."""
        targets = sorted({target for program in programs for target in PROGRAMS[program][1]})
        command = ["nice", "-n5", "cmake", "--build", self.build, *[w for t in targets for w in ("--target", t)], "--", "-k0", f"-j{self.jobs}"]
        done = subprocess.run(command + ["--quiet"], cwd=self.tree,
                              capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def failing(self, program, patterns, mutant="", seconds=TEST_SECONDS):
        """Returns the tests that fail, or another problem; empty if all pass."""
        environment = {**os.environ, "GTEST_COLOR": "no", "RETORT_MUTANT": mutant}
        if self.jobs > 1:
            environment["OMP_NUM_THREADS"] = "1"
        if program == "stand_in_tests":
            environment["RETORT_TEST_DEVICE"] = "cuda:1"
        command = ["prlimit", f"--data={TEST_BYTES}", f"--cpu={seconds}", self.build / "bin" / program,
                   f"--gtest_filter={patterns}", "--gtest_brief=1"]
        try:
            done = subprocess.run(command, cwd=self.tree, env=environment, capture_output=True, timeout=WAIT * seconds)
        except subprocess.TimeoutExpired:
            return [f"did not end within {WAIT * seconds} s"]
        if done.returncode == 0:
            ran = re.search(r"(\d+) tests? from", done.stdout.decode(errors="replace"))
            return [] if ran and int(ran[1]) else ["no test ran"]
        text = done.stdout.decode(errors="replace")
        return re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)", text, flags=re.M) or [f"exit {done.returncode}"]


def run_all(mutants, bench, results, resume):
    """Runs the mutants; returns the result of each."""
    known = {}
    bench.prepare()
    tree = digest_of_tree()
    if resume and results.is_file():
        for line in results.read_text().splitlines():
            record = json.loads(line)
            if record["tree"] == tree:
                known[record["digest"]] = record
    programs = sorted({program for mutant in mutants for program, _ in mutant.tests})
    say(f"building {', '.join(programs)} in {bench.build}")
    began = time.time()
    if errors := bench.compile(programs):
        sys.exit("the tree does not build:\n" + errors[-4000:])
    say(f"built in {time.time() - began:.0f} s; running each test that a mutant names, without mutants")
    for program in programs:
        patterns = sorted({p for m in mutants for name, ps in m.tests if name == program for p in ps.split(":")})
        if failing := bench.failing(program, ":".join(patterns), seconds=ALL_SECONDS):
            sys.exit(f"{program} fails without any mutant: {', '.join(failing)}")
    came_to = []

    def keep(mutant, record):
        say(f"[{len(came_to) + 1}/{len(mutants)}] {record['verdict']:9} {mutant.title}  "
            f"({record['seconds']:.0f} s{', by ' + record['by'] if record['by'] else ''})")
        came_to.append((mutant, record))

    for mutant in mutants:
        if record := known.get(mutant.digest()):
            keep(mutant, record)
    rest = [mutant for mutant in mutants if mutant.digest() not in known]
    with results.open("a") as out, concurrent.futures.ThreadPoolExecutor(bench.jobs) as pool:
        def tried(mutant, record):
            record.update(tree=tree, digest=mutant.digest())
            out.write(json.dumps(record) + "\n")
            out.flush()
            keep(mutant, record)

        tests = {pool.submit(run_one, mutant, bench): mutant for mutant in rest if mutant.is_asleep}
        for done in concurrent.futures.as_completed(tests):
            tried(tests[done], done.result())
        for mutant in rest:
            if not mutant.is_asleep:  # built in the tree that the others share
                tried(mutant, run_one(mutant, bench))
    return came_to


def run_one(mutant, bench):
    """Returns a mutant's result: seen, SURVIVES or BROKEN, with the test or the reason."""
    began = time.time()
    path = bench.tree / mutant.file
    before = path.read_bytes()
    verdict, by = "SURVIVES", ""
    try:
        if not mutant.is_asleep:
            path.write_text(mutant.applied((SOURCE / mutant.file).read_text()))
        for program, patterns in mutant.tests:
            if not mutant.is_asleep and (errors := bench.compile([program])):
                lines = [line for line in errors.splitlines() if "error:" in line]
                verdict, by = "BROKEN", (lines or errors.splitlines()[-1:])[0]
                break
            if failing := bench.failing(program, patterns, mutant.title):
                verdict, by = "seen", failing[0] + (f" and {len(failing) - 1} more" if len(failing) > 1 else "")
                break
    finally:
        if path.read_bytes() != before:
            path.write_bytes(before)
    return {"name": mutant.title, "verdict": verdict, "by": by, "seconds": time.time() - began}


def say(line):
    print(line, flush=True)


def main():
    # Background processes ignore these signals, and so would the tests, some of which wait for them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true", help="list the mutants")
    parser.add_argument("--check", action="store_true", help="check that each applies and names tests; builds nothing")
    parser.add_argument("--only", metavar="NAME", action="append",
                        help="only those with this in their name, 'room: what'; can be repeated")
    parser.add_argument("--half", choices=("runner", "stages"), help="only those of one half")
    parser.add_argument("--since", metavar="COMMIT", help="only those that are new or changed since a commit")
    parser.add_argument("--place", type=pathlib.Path, default=SOURCE / "build-mutants",
                        help="the folder for the copy and its build")
    parser.add_argument("--resume", action="store_true", help="skip mutants already tried with the same tree")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(),
                        help="the number of build jobs, and of mutants tested at a time (default: one for each processor)")
    arguments = parser.parse_args()
    everyone = read_mutants(mutants_here())
    mutants = [m for m in everyone if any(name in m.title for name in arguments.only or [""]) and
               m.file.startswith(arguments.half or "")]
    if arguments.since:
        earlier = {mutant.digest() for mutant in read_mutants(mutants_at(arguments.since))}
        mutants = [m for m in mutants if m.digest() not in earlier]
    if arguments.list:
        for mutant in mutants:
            say(f"{mutant.title}  [{mutant.file}; {'; '.join(shlex.join(t) for t in mutant.tests)}]")
        return 0
    if wrong := complaints(mutants):
        say("\n".join(wrong))
        say(f"{len(wrong)} faults in {len(mutants)} mutants")
        return 1
    if arguments.check:
        say(f"{len(mutants)} mutants apply")
        return 0
    if not mutants:
        sys.exit("no mutant has that name")
    place = arguments.place.resolve()
    if (place / ".git").exists():
        sys.exit(f"{place} is a checkout, and its files would be replaced")
    place.mkdir(parents=True, exist_ok=True)
    came_to = run_all(mutants, Bench(place, everyone, arguments.jobs), place / "mutants.jsonl", arguments.resume)
    survivors = [f"  {r['verdict']} {m.title}" for m, r in came_to if r["verdict"] != "seen"]
    say(f"{len(came_to)} mutants: {len(came_to) - len(survivors)} seen, {len(survivors)} not, "
        f"in {sum(r['seconds'] for _, r in came_to):.0f} s")
    say("\n".join(survivors) if survivors else "none survives")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
