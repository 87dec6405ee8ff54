"""The progress of a run in a notebook, a terminal and elsewhere."""
import io
import os
import sys
import threading
import unittest

from support import SMALL, retort


class NotebookStream(io.StringIO):
    __module__ = "ipykernel.iostream"


class ProgressShown(unittest.TestCase):
    def run_with(self, stream, folder, **options):
        real, sys.stderr = sys.stderr, stream
        try:
            retort.run("quickstart", SMALL, smoke=True, folder=folder, **options)
        finally:
            sys.stderr = real

    def test_notebook_shows_one_line(self):
        stream = NotebookStream()
        self.run_with(stream, "in_notebook")
        text = stream.getvalue()
        self.assertIn("\rtrain: ", text)
        self.assertEqual(text.count("\n"), 1)

    def test_terminal_shows_the_line_of_the_program(self):
        read, written = os.openpty()
        seen = []

        def collect():
            try:
                while part := os.read(read, 4096):
                    seen.append(part)
            except OSError:  # the end
                pass

        reader = threading.Thread(target=collect)
        reader.start()
        with open(written, "w") as stream:
            self.run_with(stream, "in_terminal")
        reader.join()
        os.close(read)
        self.assertIn(b"train", b"".join(seen))

    def test_other_streams_show_progress_only_on_request(self):
        stream = io.StringIO()
        self.run_with(stream, "quiet")
        self.assertEqual(stream.getvalue(), "")
        self.run_with(stream, "told", progress=True)
        self.assertIn("train: ", stream.getvalue())
