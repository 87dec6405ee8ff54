"""Runs: their results, and how they stop and resume."""
import json
import os
import signal
import threading
import time
import unittest
import warnings

from support import SCRATCH, SMALL, fake_program, small_run, retort


def interrupt_when(happened):
    """Sends SIGINT to the main thread once `happened()` is true, like Ctrl-C."""

    def wait():
        while not happened():
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


class Runs(unittest.TestCase):
    def test_run_returns_its_record(self):
        run = small_run()
        self.assertEqual(run.folder, SCRATCH / "small")
        self.assertEqual(run.summary.status, "finished")
        self.assertEqual([node.state for node in run.summary.nodes], ["done"] * 5)
        self.assertEqual(run.recipe["train"]["epochs"], 2)
        self.assertEqual(run.recipe["data"]["make"]["classes"], 3)

        losses = run.history("validation/loss")
        self.assertEqual([(point["node"], point["step"]) for point in losses], [("train", 2), ("train", 4)])
        kept = run.summary.nodes[3].best_epoch
        self.assertEqual(run.metrics["validation/loss"], losses[kept - 1]["value"])
        self.assertEqual(run.metrics["train/learning_rate"], run.history("train/learning_rate")[-1]["value"])
        self.assertGreater(len(run.history()), len(losses))

        rows = run.predictions()
        self.assertEqual(len(rows), 6)
        self.assertEqual([row["correct"] for row in rows], [row["label"] == row["predicted"] for row in rows])
        self.assertIsInstance(rows[0]["probability"], float)
        confusion = run.confusion()
        self.assertEqual(confusion.classes, ("disc", "stripes_horizontal", "stripes_vertical"))
        self.assertEqual(sum(map(sum, confusion.counts)), 6)
        right = sum(confusion.counts[at][at] for at in range(3))
        self.assertEqual(right, sum(row["correct"] for row in rows))

    def test_metrics_of_several_nodes_are_prefixed_with_the_node(self):
        metrics = [("train.0", "loss", 1.0), ("train.1", "loss", "nan"), ("train.1", "rate", "-inf")]
        shown = {"metrics": [{"node": node, "metric": name, "value": value, "step": 1} for node, name, value in metrics]}
        document = {"schema": "runs_show/1", "retort": "1", "result": shown, "warnings": []}
        fake_program(self, f"cat <<'END'\n{json.dumps(document)}\nEND\n")
        found = retort.Run("any").metrics
        self.assertEqual(repr(found), "{'train.0:loss': 1.0, 'train.1:loss': nan, 'rate': -inf}")

    def test_mapping_is_accepted_as_a_recipe(self):
        recipe = {"schema": 1, "name": "mine", "defaults": ["quickstart", "_self_"], "data": {"root": "shapes"}, "device": "cpu"}
        run = retort.run(recipe, {"data.make": SMALL["data.make"]}, "threads=1", smoke=True, folder="of a mapping")
        self.assertEqual((run.summary.recipe, run.summary.smoke), ("mine", True))

    def test_images_are_predicted(self):
        rows = small_run().predict("shapes/disc", top=2, device="cpu")
        self.assertEqual(len(rows), 20)
        self.assertEqual(rows[0]["predicted"], next(iter(rows[0]["classes"])))
        self.assertEqual(rows[0]["probability"], max(rows[0]["classes"].values()))
        self.assertEqual(len(rows[0]["classes"]), 2)

    def test_unreadable_image_is_an_error_or_skipped(self):
        broken = "device=some.png"  # not an override
        (SCRATCH / broken).write_bytes(b"no image")
        images = [broken, "shapes/disc/00000.jpg"]
        with self.assertRaises(retort.DataError) as caught:
            small_run().predict(images, device="cpu")
        self.assertIn("device=some.png", str(caught.exception))
        self.assertEqual([row["file"] for row in small_run().predict(images, device="cpu", skip_corrupt=True)], images[1:])

    def test_missing_image_is_not_an_override(self):
        with self.assertRaises(retort.RetortError):
            small_run().predict(["threads=1", "shapes/disc/00000.jpg"])

    def test_evaluation_is_a_separate_run(self):
        other = small_run().evaluate({"evaluate.top_k": [1]}, {"evaluate.allow_trained": True}, folder="evaluated")
        self.assertEqual(other.summary.source, str(small_run().folder))
        self.assertIn("evaluate/top1", other.metrics)

    def test_weights_are_exported(self):
        made = small_run().export("torchscript", out="exported")
        self.assertEqual(made.folder, SCRATCH / "exported")
        self.assertIn("model.pt", made.files)
        with self.assertRaises(retort.OutputError):
            small_run().export("torchscript", out="exported")

    def test_model_is_a_module_or_needs_torch(self):
        try:
            import torch
        except ImportError:
            with self.assertRaisesRegex(ModuleNotFoundError, "pip install torch"):
                small_run().model()
            return
        model = small_run().model()
        self.assertIsInstance(model, torch.nn.Module)
        self.assertEqual(tuple(model(torch.zeros(2, 3, 48, 48)).shape), (2, 3))

    def test_runs_are_listed_with_a_filter(self):
        small_run()
        rows = retort.runs("train.epochs=2 & recipe=quickstart", folders=SCRATCH / "small", sort="started")
        self.assertEqual([row["run"] for row in rows], [str(SCRATCH / "small")])
        self.assertEqual(rows[0]["values"]["train.epochs"], 2)
        self.assertEqual(retort.runs("train.epochs=3", folders=["small"]), [])
        with self.assertRaises(retort.UsageError):
            retort.runs("accuracy>>", folders="small")

    def test_interrupted_run_resumes_to_the_same_numbers(self):
        whole = retort.run("quickstart", SMALL, epochs=25, folder="whole")
        interrupt_when((SCRATCH / "stopped/nodes/train/checkpoints/latest").exists)
        with self.assertRaises(KeyboardInterrupt) as caught:
            retort.run("quickstart", SMALL, epochs=25, folder="stopped")
        stopped = caught.exception.run
        self.assertEqual(stopped.summary.status, "interrupted")
        self.assertEqual(stopped.resume().summary.status, "finished")
        losses = [
            [(point["step"], point["value"]) for point in run.history("train/loss", "validation/loss")] for run in (whole, stopped)
        ]
        self.assertEqual(losses[0], losses[1])

    def test_warnings_become_python_warnings(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            retort.validate("quickstart", "lr=1e-3", {"train.optimizer.learning_rate": 1e-4})
        self.assertEqual([warning.category for warning in said], [retort.RetortWarning])
        self.assertEqual(said[0].filename, __file__)
        with self.assertRaises(retort.RecipeError):
            retort.validate("quickstart", "lr=1e-3", {"train.optimizer.learning_rate": 1e-4}, strict=True)
