// End-to-end tests of losses and metrics in Python, which need a Python with torch.

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/torch_python.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kNetworks = R"(
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

constexpr const char* kSteps = R"(
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

constexpr const char* kMeasures = R"(
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

constexpr const char* kPoints = R"(
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

constexpr const char* kData =
    "schema: 1\n"
    "device: cpu\n"
    "data: {root: photos, image_size: 24, loader: {workers: 0}}\n"
    "train: {kind: train.python, coupling: per_sample, epochs: 2, batch_size: 8}\n";
constexpr const char* kNetwork =
    "defaults: [{data: image_folder}, {memory: as_written}, _self_]\n"
    "model: {kind: model.python, entry: 'nets.py:make', class_argument: outputs}\n";
constexpr const char* kOurNetwork =
    "defaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, _self_]\n";

/// Maps the first column of a CSV file to the last.
std::map<std::string, double> outputs_of(const std::string& csv) {
  std::map<std::string, double> outputs;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line))
    outputs[line.substr(0, line.find(','))] = std::stod(line.substr(line.rfind(',') + 1));
  return outputs;
}

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
  json metrics(const std::string& node) const {
    return json::parse(file_text(folder_ / ("run/nodes/" + node + "/metrics.json")));
  }

  const std::optional<std::filesystem::path> python_ = torch_python();
  SharedFolder folder_;
};

TEST_F(PythonTrain, RegressionLearnsWithALossAndAMetricInPython) {
  const Ended ended =
      run("train.entry=steps.py:Regression +train.arguments.scale=0.5 model.class_argument=null "
          "+model.arguments.outputs=1 train.epochs=3 train.monitor=mae train.better=lower "
          "evaluate.entry=measures.py:mae +evaluate.arguments.scale=0.5",
          "measured.yaml");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const json measured = metrics("evaluate").at("metrics");
  EXPECT_LT(measured.at("mae"), 0.6);
  EXPECT_EQ(measured.at("samples"), metrics("evaluate").at("samples"));
  EXPECT_THAT(file_text(folder_ / "run/metrics.jsonl"), HasSubstr("\"validation/mae\""));
  EXPECT_THAT(file_text(folder_ / "run/nodes/evaluate/predictions.csv"),
              HasSubstr("name,target,output\n"));
  // In predict, as in the evaluation, its outputs are numbers.
  const Ended predicted = with_trust("predict run photos --out predicted.csv");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(file_text(folder_ / "predicted.csv"), StartsWith("file,output\n"));
  const auto outputs = outputs_of(file_text(folder_ / "predicted.csv"));
  std::size_t found = 0;
  for (const auto& [name, output] :
       outputs_of(file_text(folder_ / "run/nodes/evaluate/predictions.csv"))) {
    const auto same = std::ranges::find_if(
        outputs, [&, name = name](const auto& one) { return one.first.ends_with(name); });
    ASSERT_NE(same, outputs.end()) << name;
    EXPECT_NEAR(same->second, output, 1e-5) << name;
    ++found;
  }
  EXPECT_GT(found, 0u);
  const Ended explained = with_trust("predict run photos --explain drawn");
  EXPECT_EQ(explained.exit, 64) << explained.err;
  EXPECT_THAT(explained.err, HasSubstr("this network returns numbers, not classes"));
  EXPECT_EQ(with_trust("analyze run").exit, 0);
  EXPECT_EQ(with_trust("export run --out exported").exit, 0);
}

TEST_F(PythonTrain, TargetsOfPythonDataAreLearned) {
  const Ended certified = with_trust("certify points.yaml");
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  const Ended ended = run("", "points.yaml");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_LT(metrics("evaluate").at("metrics").at("mae"), 1.2);
  EXPECT_THAT(file_text(folder_ / "run/nodes/evaluate/predictions.csv"),
              HasSubstr("name,target_0,target_1,output_0,output_1\n"));
}

TEST_F(PythonTrain, MultiLabelTrainingWithMicroBatchesIsExactAndPredictsClasses) {
  const std::string chosen =
      "train.entry=steps.py:MultiLabel +train.arguments.classes=3 train.monitor=exact "
      "memory.micro_batch=4 evaluate.kind=evaluate.classification ";
  const Ended certified = with_trust("certify measured.yaml " + chosen);
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  const Ended ended = run(chosen, "measured.yaml");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder_ / "run/metrics.jsonl"), HasSubstr("\"validation/exact\""));
  const Ended predicted = with_trust("predict run photos --top 1");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(predicted.out, StartsWith("file,class_1,probability_1\n"));
}

TEST_F(PythonTrain, MetricLearningInTwoPassesIsExactAndCannotPredict) {
  const std::string chosen =
      "train.entry=steps.py:Metric train.coupling=whole_batch model.entry=nets.py:embedding "
      "model.class_argument=null +model.arguments.width=4 memory.micro_batch=4 ";
  const Ended cut = with_trust("plan r.yaml " + chosen);
  EXPECT_EQ(cut.exit, 78) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("its loss depends on the whole batch at once"));
  const Ended certified = with_trust("certify r.yaml " + chosen + "memory.two_pass=on");
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  EXPECT_THAT(certified.out, HasSubstr("two_pass on"));
  const Ended ended = run(chosen + "memory.two_pass=on");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const Ended predicted = with_trust("predict run photos");
  EXPECT_EQ(predicted.exit, 1) << predicted.err;
  EXPECT_THAT(predicted.err,
              HasSubstr("the network returns no 'logits', which a prediction needs"));
}

TEST_F(PythonTrain, BuiltInNetworkTrainsWithAPythonEncode) {
  const std::string chosen = "train.entry=steps.py:Own";
  const Ended certified = with_trust("certify ours.yaml " + chosen);
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  const Ended ended = run(chosen, "ours.yaml");
  EXPECT_EQ(ended.exit, 0) << ended.err;
}

TEST_F(PythonTrain, EncodeDoesNotChangeRandomNumbersOfTheNetwork) {
  const auto losses = [&](const std::string& name, const std::string& step) {
    const Ended ended = with_trust(
        "run r.yaml model.entry=nets.py:noisy train.entry=steps.py:" + step + " run.dir=" + name);
    EXPECT_EQ(ended.exit, 0) << ended.err;
    std::vector<json> found;
    std::istringstream lines(file_text(folder_ / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (line.find("_loss\"") != line.npos) found.push_back(json::parse(line).at("value"));
    return found;
  };
  const auto seen = losses("seen", "Seen");
  EXPECT_FALSE(seen.empty());
  EXPECT_EQ(seen, losses("plain", "Plain"));
}

TEST_F(PythonTrain, EncodeThatChangesWeightsIsRejected) {
  EXPECT_THAT(refused("Writes"), HasSubstr("encode() of steps.py:Writes changes the network's"));
}

TEST_F(PythonTrain, CertifyDetectsAFalseCoupling) {
  const Ended certified = with_trust("certify r.yaml train.entry=steps.py:Lie");
  EXPECT_NE(certified.exit, 0) << certified.out;
  EXPECT_THAT(certified.out + certified.err, HasSubstr("first.weight"));
}

TEST_F(PythonTrain, DataDependentLossIsPlannedWithRealSteps) {
  const Ended measured = run("train.entry=steps.py:Item train.epochs=1");
  EXPECT_EQ(measured.exit, 0) << measured.err;
  EXPECT_THAT(measured.err, HasSubstr("warning[E0717]: the plan of 'train' was measured"));
}

TEST_F(PythonTrain, StrictRejectsADataDependentLoss) {
  const std::string of_item = refused("Item", "--strict");
  EXPECT_THAT(of_item, HasSubstr("item()"));
  EXPECT_THAT(of_item, HasSubstr("steps.py:"));
  EXPECT_THAT(of_item, HasSubstr("torch.where"));
  const std::string of_mask = refused("Mask", "--strict");
  EXPECT_THAT(of_mask, HasSubstr("nonzero"));
  EXPECT_THAT(of_mask, HasSubstr("torch.where"));
}

TEST_F(PythonTrain, LossWithRandomNumbersIsRejected) {
  EXPECT_THAT(refused("Draws"),
              HasSubstr("loss() of steps.py:Draws draws random numbers that cannot be reproduced"));
  EXPECT_THAT(refused("PythonDraws"), HasSubstr("draws random numbers"));
}

TEST_F(PythonTrain, FailureOfALossIsReportedWithItsLine) {
  EXPECT_THAT(refused("Exit"), HasSubstr("SystemExit: 3 ("));
  EXPECT_THAT(refused("FailsBackward"), HasSubstr("ValueError: there is no gradient ("));
  EXPECT_THAT(refused("Nothing"), HasSubstr("loss() of steps.py:Nothing returned nothing"));
}

TEST_F(PythonTrain, MistypedNameInALossListsTheExistingNames) {
  EXPECT_THAT(refused("Mistyped"), HasSubstr("encoded has 'logits'; batch has 'image', 'label'"));
}

TEST_F(PythonTrain, NonNumericMetricIsRejectedAfterTraining) {
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

TEST_F(PythonTrain, InvalidClassesAndMetricsAreRejected) {
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
