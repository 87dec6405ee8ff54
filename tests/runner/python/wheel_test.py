"""The package in the wheel and in the archive."""
import os
import pathlib
import subprocess
import sys
import tarfile
import unittest
import zipfile

from support import ROOT, SCRATCH


class Packaged(unittest.TestCase):
    def test_package_is_importable_and_finds_its_program(self):
        tree, out = SCRATCH / "tree", SCRATCH / "dist"
        for folder in ("bin", "share/retort/python/retort"):
            (tree / folder).mkdir(parents=True)
        out.mkdir()
        program = tree / "bin/retort"
        program.write_text(
            "#!/bin/sh\necho '{\"schema\": \"validate/1\", \"retort\": \"1\", \"warnings\": [], \"result\":"
            ' {"valid": true, "name": "packaged", "file": "f", "stages": 1, "nodes": 1}}\'\n'
        )
        program.chmod(0o755)
        for file in (ROOT / "runner/python/retort").iterdir():
            if file.is_file():
                (tree / "share/retort/python/retort" / file.name).write_bytes(file.read_bytes())
        wrap = [sys.executable, ROOT / "scripts/packaging/wrap", tree, out, "--version", "1.0", "--platform", "linux_x86_64"]
        subprocess.run([*wrap, "--torch", "==2", "--readme", ROOT / "README.md"], check=True, stdout=subprocess.DEVNULL)

        (wheel,) = out.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            self.assertLessEqual({"retort/__init__.py", "retort/py.typed", "retort-1.0.data/scripts/retort"}, names)
            self.assertFalse([name for name in names if "share/retort/python" in name])
            # The layout of `pip install --target`.
            packages = SCRATCH / "target"
            archive.extractall(packages)
            (packages / "bin").mkdir()
            program.rename(packages / "bin/retort")
        self.assert_finds(packages)

        (packed,) = out.glob("*.tar.gz")
        with tarfile.open(packed) as archive:
            archive.extractall(SCRATCH / "unpacked")
        (prefix,) = (SCRATCH / "unpacked").iterdir()
        self.assert_finds(prefix / "share/retort/python")

    def assert_finds(self, packages: pathlib.Path):
        environment = {key: value for key, value in os.environ.items() if key != "RETORT"}
        said = subprocess.run(
            [sys.executable, "-B", "-c", "import retort; print(retort.validate('x').name, retort.__file__)"],
            env={**environment, "PYTHONPATH": str(packages), "PATH": "/nowhere"}, capture_output=True, text=True,
        )  # fmt: skip
        self.assertEqual(said.stdout.split(), ["packaged", str(packages / "retort/__init__.py")], said.stderr)
