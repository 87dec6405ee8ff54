"""The code in docs/python.md and in the notebook runs as written."""
import contextlib
import io
import json
import os
import re
import subprocess
import unittest

from support import ROOT, SCRATCH


class Pages(unittest.TestCase):
    def folder(self, name):
        folder = SCRATCH / "pages" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def run_in_order(self, name, pieces):
        self.addCleanup(os.chdir, SCRATCH)
        os.chdir(self.folder(name))
        self.assertGreater(len(pieces), 5)
        names = {}
        for at, code in enumerate(pieces, 1):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, f"{name}, code {at}", "exec"), names)

    def test_page_runs(self):
        # `photos`, a folder with a folder of images for each class, stands for the reader's own
        # images.
        words = ["make", "image_folder", "--out", "photos", "--classes", "3", "--per-class", "20", "--size", "32"]
        subprocess.run([os.environ["RETORT"], "data", *words], cwd=self.folder("python.md"), check=True, capture_output=True)
        text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        self.run_in_order("python.md", re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))

    def test_notebook_runs(self):
        cells = json.loads((ROOT / "docs/retort.ipynb").read_text(encoding="utf-8"))["cells"]
        codes = [cell for cell in cells if cell["cell_type"] == "code"]
        self.assertEqual([cell["outputs"] for cell in codes], [[]] * len(codes), "outputs are not kept in the tree")
        self.run_in_order("retort.ipynb", ["".join(cell["source"]) for cell in codes])
