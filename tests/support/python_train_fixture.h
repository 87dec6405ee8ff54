#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/torch_python.h"

/// Trains with losses, and evaluates with metrics, in Python.
class PythonTrain : public testing::Test {
 protected:
  void SetUp() override {
    if (!python_) GTEST_SKIP() << kNoTorchPython;
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 10 --size 32 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write("nets.py", kNetworks);
    folder_.write("steps.py", kSteps);
    folder_.write("measures.py", kMeasures);
    const std::string data = kData + ("python: " + python_->string()) + "\n";
    folder_.write("r.yaml", data + kNetwork);
    folder_.write("ours.yaml", data + kOurNetwork);
    folder_.write("measured.yaml", data + kNetwork + "evaluate: {kind: evaluate.python}\n");
    folder_.write("points.py", kPoints);
    folder_.write("points.yaml",
                  "schema: 1\ndevice: cpu\ndefaults: [{memory: as_written}, _self_]\n"
                  "data: {kind: data.python, entry: 'points.py:Points', parts: {train: {count: "
                  "24}, validation: {count: 8}, test: {count: 12}}, loader: {workers: 0}}\n"
                  "model: {kind: model.python, entry: 'nets.py:make', class_argument: null, "
                  "arguments: {outputs: 2}}\n"
                  "train: {kind: train.python, entry: 'steps.py:Sizes', coupling: per_sample, "
                  "epochs: 4, batch_size: 8, optimizer: {learning_rate: 0.02}}\n"
                  "evaluate: {kind: evaluate.python, entry: 'measures.py:mae', arguments: {scale: "
                  "1}, target: sizes}\n" +
                      ("python: " + python_->string()) + "\n");
    const Ended trusted = with_trust("trust nets.py steps.py measures.py points.py");
    ASSERT_EQ(trusted.exit, 0) << trusted.err;
    folder_.keep();
  }
  Ended with_trust(const std::string& arguments) const {
    return run_shell("export XDG_CONFIG_HOME=config; " RETORT_BINARY_DIR "/bin/retort " + arguments,
                     folder_.path());
  }
  Ended run(const std::string& overrides, const std::string& recipe = "r.yaml") const {
    return with_trust("run " + recipe + " run.dir=run " + overrides);
  }
  /// The error for training with a class of steps.py that is rejected.
  std::string refused(const std::string& step, const std::string& more = "") const {
    const Ended ended = run("train.entry=steps.py:" + step + " " + more);
    EXPECT_EQ(ended.exit, 1) << ended.err;
    return ended.err;
  }
  nlohmann::json metrics(const std::string& node) const {
    return nlohmann::json::parse(file_text(folder_ / ("run/nodes/" + node + "/metrics.json")));
  }

  const std::optional<std::filesystem::path> python_ = torch_python();
  SharedFolder folder_;

 private:
  static constexpr const char* kNetworks = R"(
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2)
        self.head = nn.Linear(8, outputs)

    def forward(self, x):
        return self.head(torch.relu(self.first(x)).mean((2, 3)))


class Embedding(Small):
    def forward(self, x):
        return {"embeddings": super().forward(x)}


class Noisy(Small):
    def forward(self, x):
        return super().forward(x * (1 + 0.1 * torch.rand_like(x)) if self.training else x)


def noisy(outputs):
    return Noisy(outputs)


def make(outputs):
    return Small(outputs)


def embedding(width):
    return Embedding(width)
)";

  static constexpr const char* kSteps = R"(
import torch
from torch.nn import functional as F


def entropies(encoded, batch):
    return F.cross_entropy(encoded["logits"], batch["label"], reduction="none")


class Regression:
    def __init__(self, scale):
        self.scale = scale

    def loss(self, encoded, batch):
        x = encoded["logits"]
        return (x[:, 0] - self.scale * batch["label"].to(x.dtype)).square()

    def score(self, encoded, batch):
        return {"mae": (encoded["logits"][:, 0] - self.scale * batch["label"]).abs()}


class MultiLabel:
    def __init__(self, classes):
        self.classes = classes

    def targets(self, logits, batch):
        labels = torch.arange(self.classes, device=logits.device)
        return (labels <= batch["label"][:, None]).to(logits.dtype)

    def loss(self, encoded, batch):
        logits = encoded["logits"]
        return F.binary_cross_entropy_with_logits(logits, self.targets(logits, batch), reduction="none").mean(1)

    def score(self, encoded, batch):
        logits = encoded["logits"]
        return {"exact": ((logits > 0) == (self.targets(logits, batch) > 0)).all(1)}


class Metric:
    def encode(self, network, batch):
        return {"embeddings": F.normalize(network(batch["image"])["embeddings"], dim=1)}

    def loss(self, encoded, batch):
        x = encoded["embeddings"]
        same = batch["label"][:, None] == batch["label"][None]
        other = 1 - torch.eye(len(x), dtype=x.dtype, device=x.device)
        similar = 10 * x @ x.T
        log = similar - (similar.exp() * other).sum(1, keepdim=True).log()
        mine = same.to(x.dtype) * other
        return -((mine * log).sum(1) / mine.sum(1).clamp_min(1)).mean()


class Own:
    def encode(self, network, batch):
        return {"logits": network(image=batch["image"].flip(3))["logits"] + network(batch)["logits"]}

    def loss(self, encoded, batch):
        return entropies(encoded, batch)


class Seen:
    def encode(self, network, batch):
        return network(batch["image"])

    def loss(self, encoded, batch):
        return entropies(encoded, batch)


class Plain:
    def loss(self, encoded, batch):
        return entropies(encoded, batch)


class Writes(Seen):
    def encode(self, network, batch):
        with torch.no_grad():
            network.head.bias.add_(1)
        return network(batch["image"])


class Sizes:
    def loss(self, encoded, batch):
        return (encoded["logits"] - batch["sizes"]).square().mean(1)


class Lie:
    def loss(self, encoded, batch):
        losses = entropies(encoded, batch)
        return (losses - losses.mean()).square()


class Item:
    def loss(self, encoded, batch):
        losses = entropies(encoded, batch)
        return losses * 2 if losses.mean().item() > 1 else losses


class Mask:
    def loss(self, encoded, batch):
        losses = entropies(encoded, batch)
        return losses[losses > 1]


class Draws:
    def loss(self, encoded, batch):
        return entropies(encoded, batch) * torch.rand_like(encoded["logits"][:, 0])


class PythonDraws:
    def loss(self, encoded, batch):
        import random

        return entropies(encoded, batch) * random.random()


class Exit:
    def loss(self, encoded, batch):
        raise SystemExit(3)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("there is no gradient")


class FailsBackward:
    def loss(self, encoded, batch):
        return Doubled.apply(entropies(encoded, batch))


class NoLoss:
    pass


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proxies = torch.nn.Parameter(torch.zeros(3))

    def loss(self, encoded, batch):
        return entropies(encoded, batch)


class Mistyped:
    def loss(self, encoded, batch):
        return encoded["logit"]


class Nothing:
    def loss(self, encoded, batch):
        pass
)";

  static constexpr const char* kMeasures = R"(
import torch


def mae(samples, scale):
    targets = samples.targets.reshape(len(samples.outputs), -1)
    errors = (samples.outputs - scale * targets).abs()
    return {"mae": errors.mean(), "samples": len(samples.names)}


def drawn(samples):
    return {"drawn": torch.rand(1)}


def text(samples):
    return {"mae": "0.5"}


def undefined(samples):
    return {"mae": float("nan")}


def nothing(samples):
    pass


def labels(samples):
    return {"labels": samples.labels.mean()}


def none_given():
    return {}
)";

  static constexpr const char* kPoints = R"(
import numpy


class Points:
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        sizes = numpy.array([index % 4, index % 3], dtype="float32")
        image = numpy.zeros((3, 24, 24), dtype="float32")
        image[0], image[1] = sizes
        return {"image": image, "sizes": sizes}
)";

  static constexpr const char* kData =
      "schema: 1\n"
      "device: cpu\n"
      "data: {root: photos, image_size: 24, loader: {workers: 0}}\n"
      "train: {kind: train.python, coupling: per_sample, epochs: 2, batch_size: 8}\n";
  static constexpr const char* kNetwork =
      "defaults: [{data: image_folder}, {memory: as_written}, _self_]\n"
      "model: {kind: model.python, entry: 'nets.py:make', class_argument: outputs}\n";
  static constexpr const char* kOurNetwork =
      "defaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, _self_]\n";
};
