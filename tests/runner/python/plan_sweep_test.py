"""Plans and sweeps."""
import unittest

from support import SCRATCH, SMALL, retort


class Plans(unittest.TestCase):
    def test_plan_has_the_bytes_of_each_node(self):
        plan = retort.plan("quickstart", SMALL)
        self.assertEqual([node.node for node in plan.nodes], ["train", "evaluate"])
        train = plan["train"]
        self.assertTrue(plan.fits and train.fits)
        self.assertTrue(0 < train.live <= train.reserved <= train.needed <= train.budget)
        self.assertIs(plan.peak, train)
        self.assertEqual(train.details["needed"], train.needed)
        with self.assertRaisesRegex(KeyError, "train, evaluate"):
            plan["model"]

    def test_plan_reports_that_it_does_not_fit(self):
        plan = retort.plan("quickstart", SMALL, budget="1MiB")
        self.assertFalse(plan.fits or plan["train"].fits)
        self.assertEqual(plan["train"].budget, 2**20)
        self.assertIn("E0706", [diagnostic.code for diagnostic in plan.diagnostics])
        self.assertIn("does not fit", str(plan))

    def test_invalid_recipe_has_no_plan(self):
        with self.assertRaises(retort.RecipeError):
            retort.plan("quickstart", SMALL, epoch=3)


class Sweeps(unittest.TestCase):
    def test_sweep_of_two_trials(self):
        sweep = retort.sweep("quickstart", SMALL, seed=retort.choice(1, 2), epochs=1, folder="swept")
        self.assertEqual(sweep.folder, SCRATCH / "swept")
        self.assertEqual([trial.state for trial in sweep.trials], ["finished"] * 2)
        self.assertEqual([trial.run.recipe["seed"] for trial in sweep.trials], [1, 2])
        self.assertEqual((sweep.objective.metric, sweep.objective.best), ("validation/loss", "smallest"))
        losses = [trial.metrics["validation/loss"] for trial in sweep.trials]
        self.assertEqual(sweep.best.metrics["validation/loss"], min(losses))
        self.assertAlmostEqual(sweep.over_seeds[0].mean, sum(losses) / 2)
        self.assertEqual([row["validation/loss"] for row in sweep.table()], losses)
        self.assertEqual(sweep.resume().folder, sweep.folder)

    def test_failed_trials_are_reported_with_the_sweep(self):
        rates = {"train.optimizer.learning_rate": retort.choice(1e30, 1e-3)}
        with self.assertRaises(retort.TrialsFailed) as caught:
            retort.sweep("quickstart", SMALL, rates, epochs=1, folder="half")
        first, second = caught.exception.sweep.trials
        self.assertEqual((first.state, second.state), ("failed", "finished"))
        self.assertIn("not finite", first.reason)
