// End-to-end tests of networks created in Python.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_runs.h"

namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

constexpr const char* kNetwork = R"(
import torch
from torch import nn


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return 2 * x * gradient


class Net(nn.Module):
    def __init__(self, num_classes, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, 2), nn.GELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                                  nn.LayerNorm(4 * width), nn.Dropout(0.3))
        self.head = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        return self.head(Square.apply(self.body(x)))


def make(num_classes, width=4):
    return Net(num_classes, width)
)";

constexpr const char* kHostRecipe = R"(schema: 1
name: own
seed: 42
device: cpu
defaults: [{data: image_folder}, {memory: auto}, {train: from_scratch}, _self_]
data: {root: photos, image_size: 16, loader: {workers: 0}, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {kind: model.python, entry: "my_net.py:make", arguments: {width: 6}}
train: {epochs: 3, batch_size: 8, checkpoint: {every: {steps: 1}}}
evaluate: {kind: evaluate.classification}
)";

class PythonHosting : public HostedRuns {
 protected:
  void SetUp() override {
    make_photos_and(kHostRecipe);
    folder_.write("my_net.py", kNetwork);
  }
};

/// Tests that train, and so need a Python with torch.
class PythonTraining : public PythonHosting {
 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    PythonHosting::SetUp();
    ASSERT_EQ(here("trust my_net.py").exit, 0);
  }
};

TEST_F(PythonHosting, UntrustedCodeDoesNotRun) {
  folder_.write("my_net.py", "open('ran', 'w')\n");
  const Ended refused = here("run own.yaml run.dir=run python=/usr/bin/python3");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("'my_net.py' was never trusted, so it does not run"));
  EXPECT_THAT(refused.err, HasSubstr("retort trust my_net.py"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(PythonHosting, ChangedCodeIsNoLongerTrusted) {
  ASSERT_EQ(here("trust my_net.py").exit, 0);
  folder_.write("my_net.py", "open('ran', 'w')\n");
  const Ended refused = here("run own.yaml run.dir=run python=/usr/bin/python3");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("has changed since you trusted it, so it does not run"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(PythonHosting, RecipeIsCheckedWithoutRunningItsCode) {
  folder_.write("my_net.py", "open('ran', 'w')\n");
  for (const char* verb : {"validate", "graph", "config show"}) {
    const Ended checked = here(std::string(verb) + " own.yaml");
    EXPECT_EQ(checked.exit, 0) << verb << checked.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(PythonHosting, ErrorWithoutTorchSaysWhatToInstall) {
  folder_.write("empty/torch.py", "raise ImportError('there is none')\n");
  ASSERT_EQ(here("trust my_net.py").exit, 0);
  const Ended refused =
      here("run own.yaml run.dir=run python=/usr/bin/python3", "PYTHONPATH=$PWD/empty");
  EXPECT_EQ(refused.exit, 69) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("E0715"));
  EXPECT_THAT(refused.err, HasSubstr("has no torch (there is none)"));
  EXPECT_THAT(refused.err, HasSubstr("pip install torch=="));
}

TEST_F(PythonHosting, ErrorForAnotherTorchNamesTheRequiredVersion) {
  folder_.write("old/torch.py", "__version__ = '1.13.1'\n");
  ASSERT_EQ(here("trust my_net.py").exit, 0);
  const Ended refused =
      here("run own.yaml run.dir=run python=/usr/bin/python3", "PYTHONPATH=$PWD/old");
  EXPECT_EQ(refused.exit, 69) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("E0715"));
  EXPECT_THAT(refused.err, HasSubstr("torch 1.13.1"));
  EXPECT_THAT(refused.err, ContainsRegex("pip install torch==[0-9.]+"));
}

TEST_F(PythonTraining, NetworkCanBeTrainedAndTestedAndCanPredict) {
  const Ended run = train();
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("created in Python by my_net.py:make: "));
  const Ended predicted = here("predict run photos --top 1");
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

TEST_F(PythonTraining, TrainedNetworkCanBeLoadedInPython) {
  ASSERT_EQ(train("train.epochs=1").exit, 0);
  folder_.write("load.py", R"(
import retort, torch
from safetensors.torch import load_file

network = retort.Run("run").model()
weights = dict(network.named_parameters())
assert type(network).__name__ == "Net" and not network.training, network
assert weights["head.weight"].shape == (3, 24) and weights["head.weight"].grad_fn is None
exported = retort.Run("run").export("merged", out="merged")
assert torch.equal(weights["head.weight"], load_file("merged/model.safetensors")["head.weight"])
assert network(torch.zeros(2, 3, 16, 16)).shape == (2, 3)
)");
  const Ended loaded = run_shell(
      "export RETORT_CACHE=$PWD/cache XDG_CONFIG_HOME=$PWD/config RETORT=" RETORT_BINARY_DIR
      "/bin/retort PYTHONPATH=" RETORT_BINARY_DIR "/share/retort/python; " +
          python_->string() + " load.py",
      folder_.path());
  EXPECT_EQ(loaded.exit, 0) << loaded.err;
}

TEST_F(PythonTraining, ResumedTrainingGivesTheSameWeights) {
  ASSERT_EQ(train("", "whole").exit, 0);
  ASSERT_NE(train("memory.max_retries=0", "run", "RETORT_FAULT=retort-worker/step:4:kill").exit, 0);
  const Ended resumed = here("resume run");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_FALSE(weights("whole").empty());
  EXPECT_TRUE(weights("run") == weights("whole"));
}

TEST_F(PythonTraining, MicroBatchesGiveTheSameGradient) {
  const Ended certified =
      here("certify own.yaml memory.micro_batch=3 --json python=" + python_->string());
  ASSERT_EQ(certified.exit, 0) << certified.err << certified.out;
}

TEST_F(PythonTraining, TrainingNeedsNoMoreMemoryThanPlanned) {
  const Ended run = train("train.epochs=1");
  ASSERT_EQ(run.exit, 0) << run.err;
  const json metrics = json::parse(file_text(folder_ / "run/summary.json"))["metrics"]["train"];
  EXPECT_LE(metrics["memory/peak_by_plan"]["value"].get<double>(), 1.0);
}

/// A network with a function that requests more memory than exists. It does so once before each of
/// its allocations, starting with the call in WHEN.
constexpr const char* kGreedy = R"(
import torch
from torch import nn

ALLOCATIONS = 4
calls = {"forward": 0, "backward": 0}


def work(where, x):
    if x.device.type == "cpu":
        place, calls[where] = calls[where], calls[where] + 1
        for number in range(ALLOCATIONS):
            if place == WHEN[where] + 2 * number: torch.empty(1 << 50, dtype=torch.uint8)
            x = x * 1
    return x


class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return work("forward", x * 1)

    @staticmethod
    def backward(context, gradient):
        return work("backward", gradient * 1)


class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 4, 3, 2), nn.Linear(4, num_classes)

    def forward(self, x):
        x = self.body(x)
        return self.head((Greedy.apply(x) if self.training else x).mean((2, 3)))


def make(num_classes, width):
    return Net(num_classes)
)";

TEST_F(PythonTraining, FunctionThatRunsOutOfMemoryIsRetried) {
  const auto weights_of = [&](const std::string& when, const std::string& said) {
    trust("my_net.py", "WHEN = " + when + kGreedy);
    fs::remove_all(folder_ / "run");
    const Ended run = train("train.epochs=6 memory.max_retries=2");
    EXPECT_EQ(run.exit, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr(said));
    return weights("run");
  };
  const std::string whole = weights_of("{'forward': 99, 'backward': 99}", "memory peak");
  EXPECT_FALSE(whole.empty());
  for (const std::string place : {"forward", "backward"}) {
    const bool is_forward = place == "forward";
    const std::string when =
        is_forward ? "{'forward': 2, 'backward': 99}" : "{'forward': 99, 'backward': 2}";
    EXPECT_TRUE(weights_of(when, "recovered 4 times: 4 x out of memory") == whole);
  }
}

}  // namespace
