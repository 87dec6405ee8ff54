"""The protocol between compare.py and a benchmark; blocks.h is the same in C++."""

import json
import sys


def blocks():
    """Yields the sizes of the requested blocks."""
    for line in sys.stdin:
        yield int(line)


def memory(field):
    with open("/proc/self/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def report(answer):
    answer["resident_bytes"] = memory("VmRSS")
    answer["peak_bytes"] = memory("VmHWM")
    print(json.dumps(answer), flush=True)
