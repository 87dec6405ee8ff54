// End-to-end tests of losses and metrics in Python that are rejected or fail.

#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/python_train_fixture.h"

namespace {

using testing::HasSubstr;

using PythonTrainErrors = PythonTrain;

TEST_F(PythonTrainErrors, EncodeThatChangesWeightsIsRejected) {
  EXPECT_THAT(refused("Writes"), HasSubstr("encode() of steps.py:Writes changes the network's"));
}

TEST_F(PythonTrainErrors, CertifyDetectsAFalseCoupling) {
  const Ended certified = with_trust("certify r.yaml train.entry=steps.py:Lie");
  EXPECT_NE(certified.exit, 0) << certified.out;
  EXPECT_THAT(certified.out + certified.err, HasSubstr("first.weight"));
}

TEST_F(PythonTrainErrors, DataDependentLossIsPlannedWithRealSteps) {
  const Ended measured = run("train.entry=steps.py:Item train.epochs=1");
  EXPECT_EQ(measured.exit, 0) << measured.err;
  EXPECT_THAT(measured.err, HasSubstr("warning[E0717]: the plan of 'train' was measured"));
}

TEST_F(PythonTrainErrors, StrictRejectsADataDependentLoss) {
  const std::string of_item = refused("Item", "--strict");
  EXPECT_THAT(of_item, HasSubstr("item()"));
  EXPECT_THAT(of_item, HasSubstr("steps.py:"));
  EXPECT_THAT(of_item, HasSubstr("torch.where"));
  const std::string of_mask = refused("Mask", "--strict");
  EXPECT_THAT(of_mask, HasSubstr("nonzero"));
  EXPECT_THAT(of_mask, HasSubstr("torch.where"));
}

TEST_F(PythonTrainErrors, LossWithRandomNumbersIsRejected) {
  EXPECT_THAT(refused("Draws"),
              HasSubstr("loss() of steps.py:Draws draws random numbers that cannot be reproduced"));
  EXPECT_THAT(refused("PythonDraws"), HasSubstr("draws random numbers"));
}

TEST_F(PythonTrainErrors, FailureOfALossIsReportedWithItsLine) {
  EXPECT_THAT(refused("Exit"), HasSubstr("SystemExit: 3 ("));
  EXPECT_THAT(refused("FailsBackward"), HasSubstr("ValueError: there is no gradient ("));
  EXPECT_THAT(refused("Nothing"), HasSubstr("loss() of steps.py:Nothing returned nothing"));
}

TEST_F(PythonTrainErrors, ErrorForAMistypedNameInALossListsTheExistingNames) {
  EXPECT_THAT(refused("Mistyped"), HasSubstr("encoded has 'logits'; batch has 'image', 'label'"));
}

TEST_F(PythonTrainErrors, NonNumericMetricIsRejectedAfterTraining) {
  const Ended text =
      run("train.entry=steps.py:MultiLabel +train.arguments.classes=3 train.epochs=1 "
          "evaluate.entry=measures.py:text",
          "measured.yaml");
  EXPECT_EQ(text.exit, 1);
  EXPECT_THAT(text.err,
              HasSubstr("the metric 'mae' of measures.py:text is not a number but a str"));
  EXPECT_EQ(with_trust("evaluate run run.dir=again evaluate.entry=measures.py:drawn").exit, 0);
}

/// Creates classes of steps.py and calls functions of measures.py as a worker's host does, and
/// prints the errors. A worker for each would import torch, which takes seconds.
constexpr const char* kHost = R"(
import hashlib, os, sys, types
sys.path.insert(0, ")" RETORT_SOURCE_DIR R"(/stages/python")
import torch
from retort_host.entries import Entries
from retort_host.measures import Measures
from retort_host.steps import Steps

entries = Entries()
paths = [os.path.realpath(name) for name in ("steps.py", "measures.py")]
digests = {path: hashlib.sha256(open(path, "rb").read()).hexdigest() for path in paths}
entries.allow({"files": digests, "folders": []})
given = types.SimpleNamespace(give=lambda name: torch.zeros(2))
worker = types.SimpleNamespace(ops=types.SimpleNamespace(retort=given), manual_seed=torch.manual_seed)
steps, measures = Steps(torch, entries, None), Measures(worker, entries)


def say(action, entry, **more):
    try:
        print("accepted", action({"entry": entry, "arguments": {}, **more}))
    except Exception as error:
        print(error, "-", getattr(error, "retort_advice", ""))


for name in sys.argv[1].split(","):
    say(steps.make, "steps.py:" + name, step=1)
for name in sys.argv[2].split(","):
    say(measures.measure, "measures.py:" + name, classes=[], names=[], seed=1)
)";

TEST_F(PythonTrainErrors, InvalidClassesAndMetricsAreRejected) {
  folder_.write("host.py", kHost);
  const Ended ended = run_shell("'" + python_->string() +
                                    "' host.py Plain,NoLoss,Weights,Missing,entropies "
                                    "drawn,undefined,nothing,labels,none_given",
                                folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  std::istringstream lines(ended.out);
  for (const char* const says :
       {"accepted", "created a NoLoss, which has no loss method", "weights in '_parameters'",
        "steps.py has no 'Missing'", "it must create an object with a loss", "accepted",
        "is nan, which is not a finite number", "returned NoneType, not metrics",
        "samples has no 'labels'; it has outputs, targets, classes and names",
        "it receives the samples and returns metrics"}) {
    std::string line;
    std::getline(lines, line);
    EXPECT_THAT(line, HasSubstr(says));
  }
}

}  // namespace
