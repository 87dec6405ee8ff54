"""Programs that compare.py measures in turns, and how it prints their results."""

import json
import os
import statistics
import subprocess
import sys


class Program:
    """A benchmark that runs a block on request."""

    def __init__(self, command, options, environment=None):
        self.process = subprocess.Popen(
            [*command, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ, **(environment or {})),
        )
        self.started = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: {self.process.args[0]} ended with {self.process.wait()}")
        return json.loads(line)

    def block(self, size=1):
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def spread(values):
    """Returns the interquartile range, relative to the median."""
    if len(values) < 4:
        return (max(values) - min(values)) / statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / statistics.median(values)


def table(rows):
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [str(row[0]).ljust(widths[0])] + [str(cell).rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "   ".join(cells))
