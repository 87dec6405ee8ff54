#!/usr/bin/env python3
"""Tests the page that scripts/test-gpu writes from its figures."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from gpu_figures import page

TRAINED = {"train": {"live": 1.5, "taken live": 1.25, "reserved": 2, "taken reserved": 2.0, "needed": 600.12, "terms": {}}}


class PageTest(unittest.TestCase):
    def test_names_the_gpu_and_counts_the_parts(self):
        text = page({
            "machine": {"gpu": "NVIDIA L4, 575.1, 23034 MiB, 0 MiB, 8.9\n", "seconds": 1},
            "kernels": {"passed": True, "seconds": 2},
        })
        self.assertIn("# Retort on NVIDIA L4 (23034 MiB, compute capability 8.9, driver 575.1)", text)
        self.assertIn("2 of 2 parts passed, in 3 s.", text)
        self.assertNotIn("Failed", text)

    def test_says_why_a_part_failed(self):
        text = page({
            "kernels": {"passed": False, "exit": 1, "output": "first\na | b is not 1\n", "seconds": 1},
            "speed x": {"passed": False, "why": "stopped after 9 s", "seconds": 9},
            "doctor": {"passed": False, "exit": 7, "output": "", "seconds": 9},
        })
        self.assertIn("0 of 3 parts passed", text)
        self.assertIn("| kernels | a \\| b is not 1 |", text)
        self.assertIn("| speed x | stopped after 9 s |", text)
        self.assertIn("| doctor | exit code 7 |", text)

    def test_compares_planned_with_used_memory_by_stage(self):
        text = page({"plan x": {**TRAINED, "nvidia-smi MiB": 590, "seconds": 1}, "speed x": {**TRAINED, "seconds": 1}})
        self.assertIn("| plan x | train | 1.5 | 1.2 | 2.0 | 2.0 | 600.1 | 590 |", text)
        self.assertIn("| speed x | train | 1.5 | 1.2 | 2.0 | 2.0 | 600.1 |  |", text)
        self.assertNotIn("Other parts", text)

    def test_compares_the_speed_with_each_form_in_python(self):
        text = page({
            "speed x": {**TRAINED, "rate": "1,200.0 images/s", "seconds": 1},
            "speed x, eager in Python": {"images per second": 1000.0, "seconds": 1},
            "speed x, compile in Python": {"images per second": 2400.0, "seconds": 1},
            "speed y": {"passed": False, "why": "stopped after 9 s", "seconds": 9},
            "speed y, ddp in Python": {"images per second": 10.0, "seconds": 1},
            "speed z, ddp in Python": {"passed": False, "why": "stopped after 9 s", "seconds": 9},
        })
        self.assertIn("| x, eager | 1200.0 images/s | 1000.0 images/s | 1.200 |", text)
        self.assertIn("| x, compile | 1200.0 images/s | 2400.0 images/s | 0.500 |", text)
        self.assertIn("| y, ddp | not measured | 10.0 images/s |  |", text)
        self.assertNotIn("| z, ddp |", text)

    def test_is_a_page_without_figures_too(self):
        self.assertEqual(page({}), "# Retort on an unknown GPU\n\n0 of 0 parts passed, in 0 s.\n")


if __name__ == "__main__":
    unittest.main()
