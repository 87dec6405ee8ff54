"""Shared by the tests of the Python package: a scratch folder with one small run in it.

The variable RETORT names the program. Everything is computed on the CPU, in seconds.
"""
import atexit
import functools
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runner/python"))

import retort  # noqa: E402

if "RETORT" not in os.environ:
    sys.exit("set the environment variable RETORT to the program to test")
os.environ["RETORT"] = os.path.abspath(os.environ["RETORT"])

_scratch = tempfile.TemporaryDirectory()
atexit.register(os.chdir, "/")
SCRATCH = pathlib.Path(_scratch.name)
os.chdir(SCRATCH)  # where runs and images go
os.environ["RETORT_CACHE"] = str(SCRATCH / "cache")

SMALL = {"data.root": "shapes", "data.make": {"classes": 3, "per_class": 20, "size": 32}, "device": "cpu", "threads": 1}


@functools.cache
def small_run() -> retort.Run:
    return retort.run("quickstart", SMALL, epochs=2, folder="small")


def fake_program(test, script):
    """Sets RETORT to a shell script until the end of the test."""
    file = SCRATCH / "fake_retort"
    file.write_text("#!/bin/sh\n" + script)
    file.chmod(0o755)
    real = os.environ["RETORT"]
    os.environ["RETORT"] = str(file)
    test.addCleanup(os.environ.__setitem__, "RETORT", real)
