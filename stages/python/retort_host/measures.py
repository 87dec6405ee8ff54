"""Computes metrics of predictions with the user's functions."""

import collections.abc
import math
import random
import re
import sys
import types

from retort_host.refusal import Refusal

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}\Z")
MOST = 1000


class Samples(types.SimpleNamespace):
    """The argument of a user's metric function."""

    def __getattr__(self, name):  # called for missing attributes
        raise AttributeError(f"samples has no '{name}'; it has outputs, targets, classes and names")


class Measures:
    def __init__(self, torch, entries):
        self.torch, self.entries = torch, entries

    def measure(self, request):
        entry, operators = request["entry"], self.torch.ops.retort
        samples = Samples(
            outputs=operators.give("outputs"),
            targets=operators.give("targets"),
            classes=request["classes"],
            names=request["names"],
        )
        self.seed(request["seed"])
        role = "; it receives the samples and returns metrics"
        measure = self.entries.taking(entry, request["arguments"], given=[samples], role=role)
        values = measure(samples, **request["arguments"])
        if not isinstance(values, collections.abc.Mapping) or not values:
            raise Refusal(
                f"{entry} returned {'an empty mapping' if values == {} else type(values).__name__}, not metrics",
                "return a dict that maps metric names to numbers, such as {'mae': 0.5}",
            )
        if len(values) > MOST:
            raise Refusal(f"{entry} returned {len(values)} metrics", f"return at most {MOST}")
        return {"metrics": [[self.name(entry, name), self.number(entry, name, value)] for name, value in values.items()]}

    def seed(self, seed):
        """Seeds all generators, so that a metric draws the same numbers in each run."""
        self.torch.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)

    def name(self, entry, name):
        if isinstance(name, str) and NAME.match(name):
            return name
        raise Refusal(
            f"{entry} returned a metric named {name!r:.200}", "use letters, digits and '_' in metric names, such as top_1"
        )

    def number(self, entry, name, value):
        number = None
        if not isinstance(value, (bool, str, bytes)) and hasattr(value, "__float__"):
            try:
                number = float(value)
            except (TypeError, ValueError, RuntimeError, OverflowError):
                pass  # such as a tensor of several elements
        if number is None:
            raise Refusal(
                f"the metric '{name}' of {entry} is not a number but a {type(value).__name__}", "return a float for it"
            )
        if not math.isfinite(number):
            raise Refusal(
                f"the metric '{name}' of {entry} is {number}, which is not a finite number",
                "leave it out if it is undefined",
            )
        return number
