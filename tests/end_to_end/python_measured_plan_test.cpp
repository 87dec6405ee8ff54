// End-to-end tests of Python networks that need tensor values, which a dry run does not have: their
// plans are measured by running real steps.

#include <algorithm>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/torch_python.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// A network that executes `forward_code` on its feature maps `x`, on line 20.
std::string net_that(const std::string& forward_code) {
  return R"(import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, num_classes, width=8, depth=2):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            [Block(width) for _ in range(depth)])
        self.fc = nn.Linear(width, num_classes)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = self.stem(x)
        for block in self.blocks: x = block(x)

)" + forward_code +
         R"(
        return self.fc(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer, self.act = nn.Conv2d(width, width, 3, padding=1), nn.GELU()

    def forward(self, x):
        return self.act(self.layer(x))


def make(num_classes, **arguments):
    return Net(num_classes, **arguments)
)";
}

constexpr const char* kItem = "        x = x / (1 + self.stem.weight.abs().max().item())\n";

/// A size as written in recipes.
std::string mebibytes(std::int64_t bytes) {
  const std::int64_t thousandths = bytes * 1000 / (1 << 20);
  return std::to_string(thousandths / 1000) + '.' +
         std::to_string(1000 + thousandths % 1000).substr(1) + "MiB";
}

constexpr const char* kMeasuredRecipe = R"(schema: 1
name: own
seed: 42
device: cpu
defaults: [{data: image_folder}, {memory: auto}, {train: from_scratch}, _self_]
data: {root: photos, image_size: 16, loader: {workers: 0}, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {kind: model.python, entry: "my_net.py:make"}
train: {epochs: 1, batch_size: 8, checkpoint: {every: {steps: 1}}}
evaluate: {kind: evaluate.classification}
)";

class MeasuredPlan : public testing::Test {
 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    if (!folder_.is_made()) {
      const Ended made =
          retort("data make image_folder --out photos --classes 3 --per-class 12 --size 16 -q",
                 folder_.path());
      ASSERT_EQ(made.exit, 0) << made.err;
      folder_.write("own.yaml", kMeasuredRecipe);
      folder_.keep();
    }
    trust(net_that(kItem));
  }

  /// Runs a `retort` command on the recipe in this folder, with its own trusted files and cache.
  Ended here(const std::string& command, const std::string& more = "",
             const std::string& variables = "") const {
    return run_shell("export RETORT_CACHE=$PWD/cache XDG_CONFIG_HOME=$PWD/config; " + variables +
                         ' ' + RETORT_BINARY_DIR "/bin/retort " + command +
                         " own.yaml python=" + python_->string() + ' ' + more,
                     folder_.path());
  }
  /// Runs a `retort` command on a run in this folder.
  Ended recorded(const std::string& command) const {
    return run_shell(
        "export RETORT_CACHE=$PWD/cache XDG_CONFIG_HOME=$PWD/config; " RETORT_BINARY_DIR
        "/bin/retort " +
            command,
        folder_.path());
  }
  void trust(const std::string& code) const {
    folder_.write("my_net.py", code);
    ASSERT_EQ(run_shell("export XDG_CONFIG_HOME=$PWD/config; " RETORT_BINARY_DIR
                        "/bin/retort trust my_net.py",
                        folder_.path())
                  .exit,
              0);
  }
  Ended train(const std::string& more = "", const std::string& variables = "") const {
    fs::remove_all(folder_ / "run");
    return here("run", "run.dir=run " + more, variables);
  }
  json planned(const std::string& more = "", const std::string& variables = "") const {
    const Ended plan = here("plan --json", more, variables);
    EXPECT_EQ(plan.exit, 0) << plan.err << plan.out;
    return json::parse(plan.out)["result"]["plans"];
  }
  json summary() const { return json::parse(file_text(folder_ / "run/summary.json")); }
  double used_of_plan() const {
    return summary()["metrics"]["train"]["memory/peak_by_plan"]["value"].get<double>();
  }

  /// Returns what training prints.
  std::string expect_measured(const std::string& code, const std::string& operation) {
    SCOPED_TRACE(code);
    trust(net_that(code));
    const json plans = planned();
    EXPECT_EQ(plans.size(), 2);
    if (plans.empty()) return "";
    for (const json& plan : plans) {
      EXPECT_THAT(plan.value("measured", ""), HasSubstr("my_net.py:20)"));
      EXPECT_THAT(plan.value("measured", ""), HasSubstr(operation));
    }
    const auto owners = plans[0]["owners"];
    EXPECT_TRUE(std::ranges::any_of(owners, [](const json& owner) {
      return owner["name"] == "measured" &&
             owner["note"] == "activations of 8 samples, and all other memory of a step";
    })) << owners;
    const Ended run = train();
    EXPECT_EQ(run.exit, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("warning[E0717]: the plan of 'train' was measured by "
                                   "running real steps, since a dry run fails: "));
    EXPECT_LE(used_of_plan(), 1.0);
    return run.err;
  }

  void expect_no_more_than_planned(const std::string& more, const std::string& variables = "") {
    SCOPED_TRACE(variables + ' ' + more);
    const Ended run = train(more, variables);
    EXPECT_EQ(run.exit, 0) << run.err;
    EXPECT_LE(used_of_plan(), 1.0);
  }

  SharedFolder folder_;
  const std::optional<fs::path> python_ = torch_python();
};

/// Every command imports torch, which takes seconds.
class DeepMeasuredPlan : public MeasuredPlan {};

TEST_F(MeasuredPlan, CodeThatNeedsTensorValuesOrRandomNumbersIsMeasuredAndLocated) {
  const std::string draws = "        x = F.dropout2d(x, 0.1, self.training)\n";
  EXPECT_THAT(
      expect_measured(kItem + draws, "item()"),
      AllOf(HasSubstr("the network draws random numbers on its own"), HasSubstr("(my_net.py:21)")));
}

TEST_F(DeepMeasuredPlan, CodeThatReadsTensorValuesInAnyWayIsMeasuredAndLocated) {
  expect_measured("        x = x * 2 if x.mean() > 0 else x\n", "item()");
  expect_measured("        x = x + x[x > 0].sum()\n", "nonzero");
  expect_measured("        x = x + torch.from_numpy(x.detach().numpy() * 1)\n", "meta");
  expect_measured("        x = x + torch.ones(16, 16, device='cpu')\n", "meta");
}

TEST_F(MeasuredPlan, StrictRejectsMeasuringBeforeTheRun) {
  for (const char* const command : {"plan --strict", "run --strict"}) {
    const Ended refused = here(command, command[0] == 'r' ? "run.dir=strict" : "");
    EXPECT_EQ(refused.exit, 1) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("error[E0717]: planning needs real steps"));
    EXPECT_THAT(refused.err, HasSubstr("my_net.py:20)"));
    EXPECT_FALSE(fs::exists(folder_ / "strict"));
  }
}

TEST_F(DeepMeasuredPlan, StrictRejectsMeasuringInEveryVerbThatPlans) {
  for (const char* const command : {"certify", "lr-find", "doctor determinism"}) {
    const Ended refused = here(std::string(command) + " --strict");
    EXPECT_EQ(refused.exit, 1) << command << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("error[E0717]: planning needs real steps")) << command;
  }
}

TEST_F(MeasuredPlan, StrictRejectsMeasuringInEveryTrialOfASweep) {
  const Ended swept = here("sweep --strict", "sweep.dir=swept train.batch_size=8,12");
  EXPECT_NE(swept.exit, 0) << swept.out;
  EXPECT_THAT(swept.err, HasSubstr("error[E0717]: planning needs real steps"));
  for (const char* const trial : {"swept/0", "swept/1"})
    EXPECT_FALSE(fs::exists(folder_ / (trial + std::string("/summary.json")))) << trial;
}

TEST_F(DeepMeasuredPlan, StrictRejectsMeasuringInARecordedRun) {
  ASSERT_EQ(train().exit, 0);
  const Ended again = recorded("runs rerun run run.dir=again --strict");
  EXPECT_EQ(again.exit, 1) << again.err;
  EXPECT_THAT(again.err, HasSubstr("error[E0717]: planning needs real steps"));
  EXPECT_FALSE(fs::exists(folder_ / "again"));
  const Ended evaluated = recorded("evaluate run run.dir=evaluated --strict");
  EXPECT_EQ(evaluated.exit, 1) << evaluated.err;
  EXPECT_THAT(evaluated.err, HasSubstr("error[E0717]: planning needs real steps"));
  ASSERT_NE(train("memory.max_retries=0", "RETORT_FAULT=retort-worker/step:2:kill").exit, 0);
  const Ended resumed = recorded("resume run --strict");
  EXPECT_EQ(resumed.exit, 1) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("planning needs real steps"));
  EXPECT_EQ(recorded("resume run").exit, 0) << "saved results are not lost";
}

TEST_F(MeasuredPlan, NetworkThatSupportsADryRunIsNotMeasured) {
  trust(net_that(""));
  EXPECT_FALSE(planned("--strict")[0].contains("measured"));
}

TEST_F(MeasuredPlan, LstmIsMeasuredSinceItsKernelsAreNotTraced) {
  std::string code =
      net_that("        x = self.rows(x.mean(3).transpose(1, 2))[0].transpose(1, 2)[..., None]\n");
  const std::string first = "        self.calls = 0\n";
  code.insert(code.find(first), "        self.rows = nn.LSTM(width, width, batch_first=True)\n");
  trust(code);
  const json plans = planned();
  ASSERT_FALSE(plans.empty());
  EXPECT_THAT(plans[0].value("measured", ""), HasSubstr("the kernels of an LSTM need"));
  expect_no_more_than_planned("");

  // On a CPU, torch computes a GRU with the operators that a dry run traces.
  trust(code.replace(code.find("LSTM"), 4, "GRU"));
  EXPECT_FALSE(planned("--strict")[0].contains("measured"));
  expect_no_more_than_planned("");
}

constexpr const char* kInParts =
    "train.batch_size=16 memory.micro_batch=5 +model.arguments.width=40";

TEST_F(MeasuredPlan, TrainingNeedsNoMoreMemoryThanPlanned) {
  expect_no_more_than_planned(kInParts);
}

TEST_F(DeepMeasuredPlan, TrainingOnAnyCpuNeedsNoMoreMemoryThanPlanned) {
  for (const char* const variables :
       {"ATEN_CPU_CAPABILITY=default", "ATEN_CPU_CAPABILITY=avx2", ""}) {
    for (const char* const more : {"train.batch_size=3", "train.batch_size=21", kInParts,
                                   "train.batch_size=16 memory.activation_checkpointing=block "
                                   "'train.ema={decay: 0.9}'"})
      expect_no_more_than_planned(more, variables);
  }
}

TEST_F(MeasuredPlan, TightBudgetSplitsTheBatch) {
  const std::string more = "train.batch_size=16 +model.arguments.width=64 ";
  const auto whole = planned(more)[0]["needed"].get<std::int64_t>();
  const Ended run = train(more + "memory.budget=" + mebibytes(whole * 6 / 10));
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("chosen: "));
  EXPECT_THAT(run.err, Not(HasSubstr("recovered")));
  EXPECT_LE(used_of_plan(), 1.0);
}

TEST_F(MeasuredPlan, RunIsRejectedIfOneSampleExceedsTheBudget) {
  const Ended run = train("+model.arguments.width=512 memory.budget=4MiB");
  EXPECT_EQ(run.exit, 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("error[E0706]"));
  EXPECT_THAT(run.err,
              HasSubstr("planning had to run real steps, but even with as few samples as possible "
                        "they ran out of memory"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(MeasuredPlan, AbsentGpuIsRejected) {
  const Ended refused = here("plan --gpu L4");
  EXPECT_EQ(refused.exit, 1) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("error[E0717]: planning needs real steps on NVIDIA L4, which "
                                     "this machine does not have"));
  EXPECT_THAT(refused.err, HasSubstr("my_net.py:20)"));
}

TEST_F(MeasuredPlan, RunRecoversFromAStepThatNeedsMoreThanMeasured) {
  trust(net_that(
      "        if x.mean().item() < 9 and self.training and self.calls > 12 and len(x) > 8:\n"
      "            x = x + torch.zeros(64, *x.shape).sum(0)\n"));
  const std::string more = "train.batch_size=16 train.epochs=8 +model.arguments.width=16 ";
  const auto whole = planned(more)[0]["needed"].get<std::int64_t>();
  const Ended run =
      train(more + "memory.max_retries=3 memory.budget=" + mebibytes(whole + (1 << 20)));
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("micro_batch 8 instead of the whole batch"));
  EXPECT_GE(summary()["recoveries"].size(), 2);
}

TEST_F(MeasuredPlan, ReportsTheErrorOfTheRealStep) {
  trust(net_that("        if x.mean().item() < 9: raise ValueError('there are too many')\n"));
  const Ended run = train();
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("ValueError: there are too many ("));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(MeasuredPlan, ResumedRunHasTheSameWeights) {
  const std::string more = "train.epochs=2 train.batch_size=8 ";
  ASSERT_EQ(train(more).exit, 0);
  const std::string whole = latest_weights(folder_ / "run");
  ASSERT_FALSE(whole.empty());
  ASSERT_NE(train(more + "memory.max_retries=0", "RETORT_FAULT=retort-worker/step:4:kill").exit, 0);
  const Ended resumed = recorded("resume run");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_TRUE(latest_weights(folder_ / "run") == whole);
}

}  // namespace
