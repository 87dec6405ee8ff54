"""Python values come back from the program unchanged."""
import json
import os
import pathlib
import subprocess
import unittest

import support
from retort.overrides import choice, rendered
from retort.recipe import yaml_text

TEXTS = [
    "", " ", "a", "true", "NULL", "nan", "inf", "1", "1e3", "010", "yes", "1:30", "a b", "trailing ", "a,b", "[1]",
    "{a: 1}", "it's", '"', "'\"", "\\", "\\'", "a\\\\'", "a\\n", "C:\\dir\\", "line\nbreak", "tab\t", "é", "日本", "😀", "\u2028", "\x85",
    "\x7f", "=", "a=b", "a:b", "#x", "~", "~/x", "*", "&x", "!tag", "%", "@", "`", "|", ">", "- a", "? a", "choice(1,2)",
    "range(1,3)", "x/y.png", "$", "a$b", "a" * 5000,
]  # fmt: skip
VALUES = [
    None, True, False, 0, -1, 2**40, 1.0, 1e-5, 1e20, 0.1, -0.0, [], {}, [[]], [1, "1", None, True, [2.5, {"a": "b c"}]],
    {"a": {"b": [1]}, "with space": 1, "1": 2, "true": 3, "it's": 4, "": 5, "é": 6, "a.b": 7, "null": 8},
]  # fmt: skip


def shown(*words):
    """`vars` of a recipe as composed by the program."""
    said = subprocess.run(
        [os.environ["RETORT"], "config", "--json", "-p", "vars", "--", "show", *words], capture_output=True, text=True
    )
    document = json.loads(said.stdout)
    if "errors" in document:
        raise AssertionError(document["errors"])
    return document["result"]["config"]


class Rendering(unittest.TestCase):
    def assert_same(self, got, wanted):
        self.assertEqual(repr(got), repr(wanted))  # 1, 1.0 and True are equal but not the same

    def test_values_in_overrides_round_trip(self):
        wanted = {f"v{at}": value for at, value in enumerate(TEXTS + VALUES)}
        overrides = rendered([{"+vars." + name: value for name, value in wanted.items()}], {})
        self.assert_same(shown("quickstart", *overrides), wanted)

    def test_values_in_a_mapping_round_trip(self):
        wanted = {f"v{at}": value for at, value in enumerate(TEXTS + VALUES)}
        recipe = {"schema": 1, "defaults": ["quickstart", "_self_"], "vars": wanted}
        file = support.SCRATCH / "values.yaml"
        file.write_text(yaml_text("recipe", recipe), encoding="utf-8")
        self.assert_same(shown(str(file)), wanted)

    def test_infinite_numbers_stay_numbers(self):
        overrides = rendered([{"+vars.a": float("inf"), "+vars.b": float("-inf"), "+vars.c": float("nan")}], {})
        self.assertEqual(overrides, ["+vars.a=inf", "+vars.b=-inf", "+vars.c=nan"])
        self.assertEqual(yaml_text("x", [float("inf"), float("-inf"), float("nan")]), "[.inf, -.inf, .nan]")

    def test_plain_texts_have_no_quotes(self):
        self.assertEqual(rendered(["a=b"], {"model": "lora", "data": "photos/disc"}), ["a=b", "model=lora", "data=photos/disc"])

    def test_paths_and_tuples_become_texts_and_lists(self):
        self.assertEqual(rendered([{"a": pathlib.Path("x y"), "b": (1, 2)}], {}), ["a='x y'", "b=[1,2]"])

    def test_choices_and_ranges_become_sweep_values(self):
        self.assertEqual(rendered([], {"a": choice(1, "b c"), "b": range(3)}), ["a=choice(1,'b c')", "b=range(0,3,1)"])

    def test_unsupported_values_are_reported(self):
        for wrong in ({"a": object()}, {"a": [{1: 2}]}, 3):
            with self.assertRaises(TypeError):
                rendered([wrong], {})
        for wrong in ({"a=b": 1}, {"": 1}, {"a": "\0"}):
            with self.assertRaises(ValueError):
                rendered([wrong], {})
