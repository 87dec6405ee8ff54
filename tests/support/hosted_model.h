#pragma once

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/hosted_runs.h"

/// Each test trains a variant of net().
class HostedModel : public HostedRuns {
 public:
  /// A network of two convolutional blocks. `forward_code` runs first on `x`, and
  /// `constructor_code` adds modules.
  static std::string net(const std::string& forward_code = "",
                         const std::string& constructor_code = "", const std::string& before = "") {
    return "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + before + R"(

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(1, width)
        self.drop = nn.Dropout2d(0.2)

    def forward(self, x, scale=None):
        y = self.drop(F.gelu(self.norm(self.conv(x))))
        return x + (y if scale is None else y * scale)


class Net(nn.Module):
    def __init__(self, num_classes, width=4, depth=2):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.fc = nn.Linear(width, num_classes)
)" + constructor_code +
           R"(
    def forward(self, x):
)" + forward_code +
           R"(
        x = self.stem(x)
        for number, block in enumerate(self.blocks):
            x = block(x, scale=0.5) if number else block(x)
        return self.fc(x.mean((2, 3)))


def make(num_classes, **arguments):
    return Net(num_classes, **arguments)
)";
  }

 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    make_photos_and(kRecipe);
  }

  /// Trains `code`, which must fail and leave Python's traceback in the log.
  std::string failure(const std::string& code) const {
    trust("my_net.py", code);
    std::filesystem::remove_all(folder_ / "run");
    const Ended run = train();
    EXPECT_NE(run.exit, 0) << run.err;
    EXPECT_NE(run.exit, 70) << run.err;
    return run.err;
  }
  void expect_certified(const std::string& ranks, const std::string& recomputed) const {
    const Ended certified =
        here("certify own.yaml --json memory.activation_checkpointing=" + recomputed +
             " device.count=" + ranks + " python=" + python_->string());
    EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
    EXPECT_THAT(certified.out, testing::HasSubstr(ranks + " ranks"));
  }
  Ended python(const std::string& program) const {
    folder_.write("program.py", program);
    return run_shell(python_->string() + " program.py", folder_.path());
  }

 private:
  static constexpr const char* kRecipe = R"(schema: 1
name: own
seed: 42
device: cpu
defaults: [{data: image_folder}, {memory: auto}, {train: from_scratch}, _self_]
data: {root: photos, image_size: 16, loader: {workers: 0}, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {kind: model.python, entry: "my_net.py:make"}
train: {epochs: 2, batch_size: 8, checkpoint: {every: {steps: 1}}}
evaluate: {kind: evaluate.classification}
)";
};

/// Every command imports torch, which takes seconds.
class DeepHostedModel : public HostedModel {};
