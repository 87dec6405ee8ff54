#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/torch_python.h"

/// A network of two small towers: code for its constructor, for the start of its methods, and for
/// further methods.
struct Towers {
  std::string parts = {}, of_image = {}, of_text = {}, methods = {};
  std::string scale = "nn.Parameter(torch.tensor(2.6592))";
  int tokens = 514;
};

/// Returns the code of the network, the class Clip.
inline std::string towers_code(const Towers& towers = {}) {
  return R"(import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mlp, self.drop = nn.LayerNorm(width), nn.Linear(width, width), nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.mlp(self.norm(x))))


class Clip(nn.Module):
    def __init__(self, context=32, num_classes=None):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.image_blocks = nn.ModuleList([Block(8) for _ in range(2)])
        self.words = nn.Embedding()" +
         std::to_string(towers.tokens) + R"(, 8)
        self.places = nn.Parameter(0.1 * torch.randn(context, 8))
        self.text_blocks = nn.ModuleList([Block(8) for _ in range(2)])
        self.of_images, self.of_texts = nn.Linear(8, 6), nn.Linear(8, 6)
        self.logit_scale = )" +
         towers.scale + "\n" + towers.parts + R"(
    def encode_image(self, image):
)" + towers.of_image +
         R"(        x = self.patches(image).flatten(2).transpose(1, 2)
        for block in self.image_blocks:
            x = block(x)
        return self.of_images(x.mean(1))

    def encode_text(self, tokens):
)" + towers.of_text +
         R"(        x = self.words(tokens) + self.places
        for block in self.text_blocks:
            x = block(x)
        return self.of_texts(x.mean(1))
)" + towers.methods;
}

inline constexpr const char* kTowersRecipe = R"(schema: 1
name: towers
seed: 42
device: cpu
defaults: [{data: stanford_cars}, {memory: auto}, _self_]
data: {root: cars, image_size: 16, validation: 0.3, loader: {workers: 0}}
model: {kind: model.python, entry: "my_clip.py:Clip", towers: {tokenizer: {context_length: 32, too_long: cut}}}
train:
  kind: train.contrastive
  epochs: 2
  batch_size: 8
  optimizer: {learning_rate: 0.01}
  monitor: recall_at_1
  checkpoint: {every: {steps: 1}}
evaluate: {kind: evaluate.zero_shot}
retrieval: {kind: evaluate.retrieval}
)";

/// Tests of `retort` in a folder with images of three classes, on which the recipe towers.yaml
/// trains a Python network with two towers, my_clip.py:Clip.
class HostedTowers : public testing::Test {
 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make stanford_cars --out cars --classes 3 --per-class 20 --size 16 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write("towers.yaml", kTowersRecipe);
    folder_.keep();
  }

  /// Runs `retort` in this folder, with its own trusted files and cache.
  Ended here(const std::string& arguments, const std::string& variables = "") const {
    return run_shell("export RETORT_CACHE=$PWD/cache XDG_CONFIG_HOME=$PWD/config; " + variables +
                         ' ' + RETORT_BINARY_DIR "/bin/retort " + arguments,
                     folder_.path());
  }
  void trust(const std::string& text, const std::string& file = "my_clip.py") const {
    folder_.write(file, text);
    ASSERT_EQ(here("trust " + file).exit, 0);
  }
  Ended train(const std::string& more = "", const std::string& name = "run",
              const std::string& variables = "") const {
    return here("run towers.yaml run.dir=" + name + " python=" + python_->string() + ' ' + more,
                variables);
  }
  /// The errors of a network that is rejected before the run, or fails.
  std::string refusal(const std::string& code, const std::string& more = "") const {
    trust(code);
    std::filesystem::remove_all(folder_ / "run");
    const Ended run = train(more);
    EXPECT_NE(run.exit, 0) << run.err;
    EXPECT_NE(run.exit, 70) << run.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run/nodes/train/checkpoints/latest"));
    return run.err;
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }
  std::filesystem::path last(const std::string& name) const {
    const std::filesystem::path checkpoints = folder_ / (name + "/nodes/train/checkpoints");
    std::string latest = file_text(checkpoints / "latest");
    if (!latest.empty()) latest.pop_back();
    return checkpoints / latest / "model.safetensors";
  }
  nlohmann::json metrics(const std::string& node) const {
    return nlohmann::json::parse(file_text(folder_ / (node + "/metrics.json")));
  }

  SharedFolder folder_;
  const std::optional<std::filesystem::path> python_ = torch_python();
};
