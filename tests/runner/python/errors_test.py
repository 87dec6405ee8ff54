"""Failures raise exceptions that explain them."""
import json
import os
import shutil
import unittest

from support import ROOT, SCRATCH, SMALL, fake_program, small_run, retort
from retort.program import KNOWN_SCHEMAS


class WrongInput(unittest.TestCase):
    def test_errors_of_a_recipe_are_objects(self):
        with self.assertRaises(retort.RecipeError) as caught:
            retort.run("quickstart", "train.epoch=3", {"train.batch_size": "many"})
        error = caught.exception
        self.assertEqual((error.exit_code, error.run), (78, None))
        self.assertEqual([diagnostic.code for diagnostic in error.diagnostics], ["E0203", "E0302"])
        first = error.diagnostics[0]
        self.assertEqual((first.pointer, first.file, first.line, first.column), ("/train/epoch", "override 1", 1, 1))
        self.assertEqual(first.help, "did you mean 'epochs'?")
        text = "override 1:1:1: error[E0203]: unknown key 'epoch' in 'train' [/train/epoch]\n  help: did you mean 'epochs'?"
        self.assertEqual(str(first), text)
        self.assertTrue(str(error).startswith(text))

    def test_errors_in_a_mapping_have_no_lines(self):
        with self.assertRaises(retort.RecipeError) as caught:
            retort.validate({"schema": 1, "defaults": ["quickstart", "_self_"], "train": {"epoch": 3}})
        (diagnostic,) = caught.exception.diagnostics
        self.assertEqual((diagnostic.pointer, diagnostic.file, diagnostic.line), ("/train/epoch", None, 0))

    def test_missing_files_are_reported(self):
        for call in (
            lambda: retort.run("nothing"),
            lambda: retort.validate("nothing.yaml"),
            lambda: retort.Run("nowhere").summary,
            lambda: retort.Run("nowhere").history(),
            lambda: retort.Run("nowhere").predictions(),
            lambda: retort.Run("nowhere").resume(),
            lambda: small_run().predict("nowhere.jpg"),
        ):
            with self.assertRaises(retort.MissingError) as caught:
                call()
            self.assertIn("no", str(caught.exception))
            self.assertEqual(caught.exception.exit_code, 66)

    def test_overrides_are_never_flags(self):
        with self.assertRaises(retort.RecipeError):
            retort.validate("quickstart", "--strict")
        with self.assertRaises(retort.MissingError):
            retort.validate("--help")

    def test_failed_run_has_its_record(self):
        with self.assertRaises(retort.RunFailed) as caught:
            retort.run("quickstart", SMALL, {"train.optimizer.learning_rate": 1e30}, epochs=1, folder="failed")
        self.assertEqual(caught.exception.diagnostics[0].code, "E0702")
        self.assertEqual(caught.exception.run.summary.status, "failed")

    def test_occupied_folder_is_an_error(self):
        with self.assertRaises(retort.OutputError):
            retort.run("quickstart", SMALL, folder=small_run().folder)


class DamagedRecords(unittest.TestCase):
    def setUp(self):
        self.folder = SCRATCH / "damaged"
        shutil.copytree(small_run().folder, self.folder)
        self.addCleanup(shutil.rmtree, self.folder)
        self.run_ = retort.Run(self.folder)

    def assert_damaged(self, call, text):
        with self.assertRaises(retort.DataError) as caught:
            call()
        self.assertEqual([diagnostic.code for diagnostic in caught.exception.diagnostics], ["E0821"])
        self.assertIn(text, str(caught.exception))

    def test_damaged_metrics_are_an_error(self):
        file = self.folder / "metrics.jsonl"
        file.write_text('{"node": 1}\n' + file.read_text())
        self.assert_damaged(self.run_.history, "line 1 is not a metric")

    def test_truncated_last_line_is_ignored(self):
        whole = len(self.run_.history())
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.write('{"node":"train","na')
        self.assertEqual(len(self.run_.history()), whole)

    def test_damaged_predictions_and_matrix_are_errors(self):
        with open(self.folder / "nodes/evaluate/predictions.csv", "a") as file:
            file.write("one,two\n")
        self.assert_damaged(self.run_.predictions, "2 columns")
        matrix = self.folder / "nodes/evaluate/confusion_matrix.csv"
        matrix.write_text(matrix.read_text().replace("disc,", "disk,", 1))
        self.assert_damaged(self.run_.confusion, "cannot be read")

    def test_damaged_summary_causes_a_warning(self):
        (self.folder / "summary.json").write_text("{")
        with self.assertWarnsRegex(retort.RetortWarning, "E0821.*summary.json"):
            self.assertEqual(self.run_.summary.status, "")

    def test_missing_results_are_an_error(self):
        shutil.rmtree(self.folder / "nodes/evaluate")
        with self.assertRaises(retort.MissingError):
            self.run_.predictions()


class Programs(unittest.TestCase):
    def assert_program_error(self, text):
        with self.assertRaisesRegex(retort.ProgramError, text):
            retort.validate("quickstart")

    def test_other_version_is_rejected(self):
        fake_program(self, """echo '{"schema": "validate/2", "retort": "9.0", "result": {}, "warnings": []}'""")
        self.assert_program_error("is retort 9.0, which prints validate/2")

    def test_known_versions_match_the_schemas(self):
        for name in KNOWN_SCHEMAS - {"errors/1"}:
            schema = json.loads((ROOT / "schemas/output" / (name.split("/")[0] + ".json")).read_text())
            self.assertEqual(schema["$id"], name)

    def test_malformed_answer_is_an_error(self):
        fake_program(self, "echo oops >&2; exit 1")
        self.assert_program_error("it printed nothing\noops")
        fake_program(self, "echo text")
        self.assert_program_error("cannot be read")

    def test_killed_program_is_an_error(self):
        fake_program(self, "kill -9 $$")
        self.assert_program_error("killed by SIGKILL")

    def test_missing_program_is_an_error(self):
        real, path = os.environ["RETORT"], os.environ["PATH"]
        self.addCleanup(os.environ.update, RETORT=real, PATH=path)
        os.environ["RETORT"] = str(SCRATCH / "nothing")
        self.assert_program_error("RETORT")
        del os.environ["RETORT"]
        os.environ["PATH"] = str(ROOT / "docs")
        if not os.path.exists(ROOT.parent / "bin/retort"):
            self.assert_program_error("install the wheel")
        os.environ["PATH"] = os.path.dirname(real)
        self.assertEqual(retort.validate("quickstart").name, "quickstart")
