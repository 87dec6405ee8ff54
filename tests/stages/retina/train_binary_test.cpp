#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "stages/memory/policy.h"
#include "stages/retina/train_binary.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/on_test_device.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/with_graphs.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The stage with these options, run on TinyDatasets of four classes.
struct BinaryRun {
  std::shared_ptr<TinyDataset> train = std::make_shared<TinyDataset>(40, 4),
                               validation = std::make_shared<TinyDataset>(20, 4);
  std::shared_ptr<TinyModel> model = std::make_shared<TinyModel>();
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  std::shared_ptr<Dataset> measured_on;  // replaces `validation`
  RecordingContext context;

  /// Trains all weights of the network at one learning rate, since its head has no name.
  std::unique_ptr<runner::Stage> stage(nlohmann::ordered_json options) const {
    options["learning_rate_factors"] = {{"backbone", 1.0}};
    if (!options.contains("classes")) options["classes"] = {1, 3};
    if (!options.contains("optimizer")) options["optimizer"] = {{"learning_rate", 0.05}};
    return stage_of(kTrainBinary, options);
  }
  runner::Inputs inputs() const {
    runner::Inputs::ByPort inputs = {{"model", {model}}, {"memory", {policy}}, {"train", {train}}};
    if (measured_on) inputs["validation"] = {measured_on};
    else if (validation) inputs["validation"] = {validation};
    return runner::Inputs(inputs, {{"model", "model"}});
  }
  std::shared_ptr<const Checkpoint> run(const std::string& options = "{}") {
    const runner::Outputs outputs =
        stage(nlohmann::ordered_json::parse(options))->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint");
  }
  runner::Diagnostics error(const std::string& options = "{}") {
    return refusals_of([&] { run(options); });
  }
};

TEST(Binary, LearnsToSeparateTwoClassesWithOneLogit) {
  BinaryRun run;
  const auto checkpoint = run.run(R"({"epochs": 30, "batch_size": 8})");
  EXPECT_THAT(checkpoint->classes, ElementsAre("class1", "class3"));
  EXPECT_EQ(checkpoint->pair_of, 4);
  EXPECT_EQ(checkpoint->network, nullptr);
  EXPECT_EQ(checkpoint->held().on_device, 0);
  const auto network = checkpoint->opened();
  EXPECT_FALSE(network->is_training());
  const torch::NoGradGuard no_graph;
  for (std::int64_t index = 0; index < 40; ++index) {
    if (index % 2 == 0) continue;  // of other classes
    const NamedTensors inputs{
        {"image", run.train->sample(0, index)->at("image").unsqueeze(0).to(here().device())}};
    const at::Tensor logits = checkpoint->model->forward(*network, inputs).at("logits");
    ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{1, 1}));
    EXPECT_EQ(logits.item<float>() > 0, index % 4 == 3) << index;
  }
  EXPECT_EQ(checkpoint->validation.at("accuracy"), 1);
  EXPECT_EQ(checkpoint->validation.at("auc"), 1);
}

TEST(Binary, StopsAtTheRequiredAccuracy) {
  BinaryRun run;
  run.run(R"({"epochs": 50, "batch_size": 8, "patience": null})");
  const std::size_t epochs = run.context.values("validation/accuracy").size();
  EXPECT_LT(epochs, 50u);
  EXPECT_THAT(run.context.said,
              testing::Contains("stopped after epoch " + std::to_string(epochs) +
                                ": the accuracy on the validation data is high enough"));
  BinaryRun on;
  on.run(R"({"epochs": 50, "batch_size": 8, "patience": null, "stop_at_accuracy": null})");
  EXPECT_EQ(on.context.values("validation/accuracy").size(), 50u);
}

/// Points, two of which have the wrong label.
class Mislabeled final : public ForwardedDataset {
 public:
  Mislabeled() : ForwardedDataset(std::make_shared<TinyDataset>(20, 4)) {}
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    auto sample = inner_->sample(epoch, index);
    sample->set("label", torch::tensor(labels()[static_cast<std::size_t>(index)]));
    return sample;
  }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> labels = inner_->labels();
    std::swap(labels[1], labels[3]);
    return labels;
  }
};

TEST(Binary, AreaIsMeasuredOverTheWholeValidationPart) {
  BinaryRun run;
  const auto wrong = std::make_shared<Mislabeled>();
  run.measured_on = wrong;
  const auto checkpoint =
      run.run(R"({"epochs": 3, "batch_size": 4, "monitor": "auc", "keep": "last"})");
  const auto network = checkpoint->opened();
  const torch::NoGradGuard no_graph;
  std::vector<RankedSample> samples;
  for (std::int64_t index = 1; index < 20; index += 2) {
    const NamedTensors inputs{
        {"image", wrong->sample(0, index)->at("image").unsqueeze(0).to(here().device())}};
    samples.push_back({checkpoint->model->forward(*network, inputs).at("logits").item<double>(),
                       wrong->labels()[static_cast<std::size_t>(index)] == 3});
  }
  const double area = run.context.values("validation/auc").back();
  EXPECT_NEAR(area, *ranked_area(samples), 1e-12);
  EXPECT_GT(area, 0.6);
  EXPECT_LT(area, 0.97);
}

TEST(Binary, ClassWeightsOfTheRecipeAreUsed) {
  const auto loss = [](const std::string& weights) {
    BinaryRun run;
    run.train = std::make_shared<TinyDataset>(8, 4);
    run.run(
        R"({"epochs": 1, "batch_size": 64, "log_every": 1, "patience": null, "class_weights": )" +
        weights + "}");
    return run.context.values("train/loss").at(0);
  };
  EXPECT_NEAR(loss("[9, 2, 7, 2]"), loss(R"("none")"), 1e-6);
  EXPECT_NE(loss("[1, 1, 1, 5]"), loss("[1, 5, 1, 1]"));
  BinaryRun run;
  EXPECT_REFUSED(run.error(R"({"class_weights": [1, 1]})"), kOptionConflict, "/class_weights",
                 "2 numbers for 4 classes");
}

TEST(Binary, BalancedEpochsContainBothClassesEquallyOften) {
  BinaryRun run;
  for (std::int64_t i = 0; i < 40; ++i) run.train->relabeled[i] = i < 30 ? 1 : 3;
  run.run(R"({"epochs": 2, "batch_size": 8, "sampling": "balanced", "stop_at_accuracy": null})");
  EXPECT_EQ(run.context.values("validation/accuracy").size(), 2u);
  EXPECT_THAT(run.context.said,
              testing::Not(testing::Contains(HasSubstr("compensate for rare classes"))));
  BinaryRun twice;
  twice.run(R"({"epochs": 1, "sampling": "balanced", "class_weights": "balanced"})");
  EXPECT_THAT(twice.context.said,
              testing::Contains(HasSubstr("sampling: balanced and class_weights: balanced both")));
}

TEST(Binary, LastSingleSampleIsOmittedIfLayersMixSamples) {
  BinaryRun run;
  run.model->mixes = true;
  run.train = std::make_shared<TinyDataset>(10, 4);  // three of class 1 and two of class 3
  run.run(R"({"epochs": 1, "batch_size": 4, "log_every": 1, "stop_at_accuracy": null})");
  EXPECT_EQ(run.context.values("train/loss").size(), 1u);
  EXPECT_THAT(run.context.said, testing::Contains(HasSubstr("each epoch leaves out one sample")));
}

TEST(Binary, PairSmallerThanABatchIsTrained) {
  BinaryRun run;
  run.train = std::make_shared<TinyDataset>(8, 4);
  run.train->options.drop_last = true;
  run.run(R"({"epochs": 3, "batch_size": 64, "log_every": 1, "stop_at_accuracy": null})");
  EXPECT_EQ(run.context.values("train/loss").size(), 3u);
}

TEST(Binary, ClassesMayBeGivenByName) {
  BinaryRun run, same;
  const auto named = run.run(R"({"epochs": 2, "classes": ["class1", "class3"]})")->opened();
  const auto numbered = same.run(R"({"epochs": 2})")->opened();
  for (const auto& [name, weight] : weights(*named))
    EXPECT_TRUE(weight.equal(weights(*numbered).at(name))) << name;
}

TEST(Binary, UntrainablePairsAreRejected) {
  BinaryRun run;
  EXPECT_REFUSED(run.error(R"({"classes": [1, 4]})"), kLabelOutOfRange, "/classes", "class 4");
  EXPECT_REFUSED(run.error(R"({"classes": ["class1", 1]})"), kOptionConflict, "/classes",
                 "'class1'");
  run.model->mixes = true;
  EXPECT_REFUSED(run.error(R"({"batch_size": 1})"), kOptionConflict, "/batch_size");
}

TEST(Binary, FocalLossIsRecordedUnderItsName) {
  BinaryRun run;
  run.run(R"({"epochs": 1, "loss": {"kind": "focal"}, "log_every": 1})");
  EXPECT_EQ(run.context.values("train/loss").size(), 1u);
}

// A pair leaves only a few words in memory, however large its network is.
TEST(Binary, TenPairsLeaveNoTensorsInMemory) {
  const CountingAllocator counter;
  std::vector<std::shared_ptr<const Checkpoint>> checkpoints;
  std::vector<std::int64_t> after;
  const MemoryMeter meter(at::kCPU);
  const std::vector<std::vector<int>> pairs = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3},
                                               {2, 3}, {1, 0}, {2, 0}, {3, 0}, {2, 1}};
  for (const auto& pair : pairs) {
    BinaryRun run;
    checkpoints.push_back(
        run.run(nlohmann::json{{"epochs", 2}, {"batch_size", 8}, {"classes", pair}}.dump()));
    after.push_back(meter.in_use());
  }
  EXPECT_THAT(after, testing::Each(after.front()));
}

TEST(Binary, CudaGraphsGiveTheSameBits) {
  for (const char* weights : {R"("none")", "[1, 3, 1, 0.5]"})
    expect_same_bits_with_graphs<BinaryRun>(R"({"epochs": 3, "batch_size": 8, "class_weights": )" +
                                            std::string(weights) + "}");
}

}  // namespace
}  // namespace stages
