#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/loader.h"
#include "stages/artifact/model.h"
#include "stages/data/features.h"
#include "stages/memory/policy.h"
#include "stages/plan/plan_forward.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/frozen_model.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// Points with a description that a test chooses.
class Points final : public Dataset, public AugmentedDataset {
 public:
  explicit Points(std::int64_t size) : points(size) {}
  DatasetDescription describe() const override {
    DatasetDescription description = points.describe();
    description.transform = transform;
    description.augmented = is_augmented;
    return description;
  }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    return points.sample(epoch, index);
  }
  std::string sample_name(std::int64_t index) const override { return points.sample_name(index); }
  std::vector<std::int64_t> captions() const override { return points.captions(); }
  LoaderOptions loader() const override { return {.workers = 2, .drop_last = true}; }
  std::shared_ptr<const Dataset> for_training() const override {
    auto view = std::make_shared<Points>(*this);
    view->is_augmented = is_augmented || is_augmented_for_training;
    return view;
  }

  TinyDataset points;
  std::string transform = R"({"kind":"image"})";
  bool is_augmented = false, is_augmented_for_training = false;
};

class FeaturesTest : public testing::Test {
 protected:
  /// Returns the stage's output `name`, or null if there is none.
  std::shared_ptr<const Dataset> run(const std::string& name, const std::string& options = "{}") {
    outputs_ = run_all(options);
    const auto found = outputs_.find(name);
    return found == outputs_.end() ? nullptr
                                   : std::static_pointer_cast<const Dataset>(found->second);
  }
  runner::Outputs run_all(const std::string& options = "{}") {
    const auto stage = stage_of(kDataFeatures, options);
    runner::Inputs::ByPort inputs = {
        {"train", {train_}}, {"test", {test_}}, {"model", {model_}}, {"memory", {policy_}}};
    return stage->run(runner::Inputs(inputs, {{"model", "probe"}}), context_);
  }
  runner::Diagnostics error(const std::string& options = "{}") {
    return refusals_of([&] { run_all(options); });
  }
  fs::path file(const std::string& part) const {
    return context_.node().folder / (part + ".safetensors");
  }
  void damage(const fs::path& path, std::int64_t from_end) const {
    std::fstream bytes(path, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekg(-from_end, std::ios::end);
    const int byte = bytes.get();
    bytes.seekp(-from_end, std::ios::end);
    bytes.put(static_cast<char>(byte ^ 1));
  }
  at::Tensor expected(const Dataset& dataset, std::int64_t index) const {
    const auto network =
        model_->build(dataset.describe(), 99);  // the frozen part is the same for every seed
    return model_
        ->frozen_features(*network, {{"image", dataset.sample(0, index)->at("image").unsqueeze(0)}})
        .at("features")[0]
        .detach();
  }

  std::shared_ptr<Points> train_ = std::make_shared<Points>(30),
                          test_ = std::make_shared<Points>(7);
  std::shared_ptr<FrozenModel> model_ = std::make_shared<FrozenModel>();
  std::shared_ptr<MemoryPolicy> policy_ = std::make_shared<MemoryPolicy>();
  RecordingContext context_;
  runner::Outputs outputs_;
};

TEST_F(FeaturesTest, EqualTheOutputOfTheFrozenPart) {
  const auto features = run("test", R"({"batch_size": 4})");
  EXPECT_EQ(model_->built, 1);
  EXPECT_EQ(model_->computed, 37);
  EXPECT_FALSE(model_->was_training);
  for (const std::int64_t index : {0, 3, 6}) {
    const NamedTensors sample = *features->sample(5, index);
    EXPECT_TRUE(sample.at("features").allclose(expected(*test_, index), 1e-6, 1e-7));
    EXPECT_TRUE(sample.at("label").equal(test_->sample(0, index)->at("label")));
    EXPECT_FALSE(sample.contains("image"));
  }
  EXPECT_EQ(features->sample_name(3), "point3");
  EXPECT_TRUE(features->loader().drop_last);
  EXPECT_EQ(features->loader().workers, 0);
  EXPECT_THAT(context_.said, Contains("train: 30 features of 8 values, 960 bytes"));
  EXPECT_EQ(outputs_.count("validation"), 0);
}

TEST_F(FeaturesTest, PlanCountsTheirMemory) {
  FeatureTable table{.present = torch::ones({7}, at::kBool), .tensors = {}};
  table.tensors.set("features", torch::zeros({7, 8}));
  table.tensors.set("label", torch::zeros({7}, at::kLong));
  const FeatureDataset features(train_, std::move(table));
  constexpr std::int64_t kBytes = 7 * (1 + 8 * 4 + 8);
  EXPECT_EQ(features.held().on_host, kBytes);
  PlanningContext context;
  runner::MemoryPlan plan{.needed = 1000};
  add_held_memory(plan, context, {&features, train_.get(), nullptr});
  EXPECT_EQ(plan.needed, 1000 + kBytes);
  EXPECT_EQ(plan.terms.at(0).name, "data");
  context.facts.device = "cuda:0";
  runner::MemoryPlan on_gpu;
  add_held_memory(on_gpu, context, {&features});
  EXPECT_EQ(on_gpu.terms.size(), 0u);
}

TEST_F(FeaturesTest, DescribeWhatTheyWereComputedFrom) {
  const DatasetDescription features = run("train")->describe();
  EXPECT_EQ(features.size, 30);
  EXPECT_EQ(features.classes, train_->describe().classes);
  EXPECT_EQ(features.tensors.at(0).name, "features");
  EXPECT_THAT(features.tensors.at(0).shape, ElementsAre(8));
  EXPECT_EQ(features.tensors.at(1).name, "label");
  EXPECT_EQ(features.transform, train_->transform);
  EXPECT_FALSE(features.augmented);
  ASSERT_TRUE(features.source);
  EXPECT_EQ(source_of(features).tensors.at(0).name, "image");
  EXPECT_EQ(source_of(train_->describe()).tensors.at(0).name, "image");
}

TEST_F(FeaturesTest, KeepTheCaptionsOfTheirSamples) {
  test_->points.has_captions = true;
  const auto features = run("test");
  EXPECT_EQ(features->describe().captions, test_->describe().captions);
  EXPECT_EQ(features->captions(), test_->points.labels());
  EXPECT_TRUE(features->sample(0, 4)->at("caption").equal(test_->sample(0, 4)->at("caption")));
}

TEST_F(FeaturesTest, AreReadFromTheFileIfAlreadyComputed) {
  const auto before = run("test");
  model_->built = 0;
  context_.facts.reuses = true;
  context_.said.clear();
  const auto after = run("test");
  EXPECT_EQ(model_->built, 0);
  EXPECT_THAT(context_.said, testing::IsEmpty());
  for (std::int64_t index = 0; index < 7; ++index) {
    EXPECT_TRUE(
        after->sample(0, index)->at("features").equal(before->sample(0, index)->at("features")));
    EXPECT_TRUE(after->sample(0, index)->at("label").equal(before->sample(0, index)->at("label")));
  }
}

TEST_F(FeaturesTest, ExistingFileIsOnlyReusedIfTheRunAllowsIt) {
  run_all();
  run_all();
  EXPECT_EQ(model_->built, 2);
}

TEST_F(FeaturesTest, DamagedFileIsRecomputed) {
  run_all();
  damage(file("train"), 40);
  context_.facts.reuses = true;
  const auto again = run("train");
  EXPECT_THAT(context_.said, Contains(HasSubstr("its digest does not match its values")));
  EXPECT_TRUE(again->sample(0, 29)->at("features").allclose(expected(*train_, 29), 1e-6, 1e-7));
  context_.facts.reuses = true;
  context_.said.clear();
  fs::resize_file(file("test"), 20);
  run_all();
  EXPECT_THAT(context_.said, Contains(HasSubstr("not reused: ")));
}

TEST_F(FeaturesTest, FileForDifferentDataIsRecomputed) {
  run_all();
  context_.facts.reuses = true;
  test_ = std::make_shared<Points>(8);
  EXPECT_EQ(run("test")->describe().size, 8);
  EXPECT_THAT(context_.said, Contains(HasSubstr("'present' has a different shape or type")));
  context_.facts.reuses = true;
  context_.said.clear();
  test_->transform = "another";
  run_all();
  EXPECT_THAT(context_.said, Contains(HasSubstr("its 'transform' is different")));
}

TEST_F(FeaturesTest, AugmentedTrainingDataIsPassedThrough) {
  train_->is_augmented = true;
  EXPECT_EQ(run("train"), train_);
  EXPECT_EQ(model_->computed, 7);
  EXPECT_THAT(context_.said, Contains("train: its samples change from epoch to epoch, so their "
                                      "features are computed in every epoch"));
  EXPECT_FALSE(fs::exists(file("train")));
}

TEST_F(FeaturesTest, DataAugmentedForTrainingIsPassedThroughToTrainingOnly) {
  train_->is_augmented_for_training = test_->is_augmented_for_training = true;
  EXPECT_EQ(run("train"), train_);
  EXPECT_NE(run("test"), test_);
}

TEST_F(FeaturesTest, StorageCanBeDisabled) {
  model_->is_frozen = false;
  EXPECT_EQ(run("train", R"({"cache": false})"), train_);
  EXPECT_EQ(run("test", R"({"cache": false})"), test_);
  EXPECT_EQ(model_->built, 0);
  EXPECT_THAT(context_.said, Contains("features are not cached: cache is false"));
}

TEST_F(FeaturesTest, ModelWithoutAFrozenPartIsRejectedByName) {
  model_->is_frozen = false;
  EXPECT_REFUSED(error(), kOptionConflict, "", "probe");
}

TEST_F(FeaturesTest, SkippedSamplesStaySkipped) {
  test_->points.skipped = {0, 5};
  for (const bool is_reusing : {false, true}) {
    context_.facts.reuses = is_reusing;
    const auto features = run("test", R"({"batch_size": 2})");
    EXPECT_FALSE(features->sample(0, 5));
    EXPECT_TRUE(features->sample(0, 6)->at("features").allclose(expected(*test_, 6), 1e-6, 1e-7));
    Loader loader(features, sequential_order(7), 3, 0);
    while (loader.next()) {
    }
    EXPECT_EQ(loader.skipped(), 2);
  }
  for (std::int64_t index = 0; index < 7; ++index) test_->points.skipped.insert(index);
  context_.facts.reuses = false;
  EXPECT_REFUSED(error(), kTooFewSamples, "", "test");
}

TEST_F(FeaturesTest, SmokeRunComputesTwoBatchesAndKeepsNothing) {
  context_.facts.smoke = true;
  const auto features = run("train", R"({"batch_size": 2})");
  EXPECT_EQ(model_->computed, 8);
  EXPECT_EQ(features->describe().size, 30);
  EXPECT_TRUE(
      features->sample(0, 29)->at("features").equal(features->sample(0, 1)->at("features")));
  EXPECT_FALSE(fs::exists(file("train")));
}

TEST_F(FeaturesTest, UnusedPartIsNotComputed) {
  context_.facts.wanted = {"validation", "test"};
  EXPECT_EQ(run("train"), nullptr);
  EXPECT_EQ(model_->computed, 7);
  // Missing features are computed later and added to the existing ones.
  context_.facts.wanted.reset();
  context_.facts.reuses = true;
  run_all();
  EXPECT_EQ(model_->computed, 37);
}

TEST_F(FeaturesTest, StopsWhenCanceled) {
  context_.on_progress = [&](const runner::Progress&) { context_.is_canceled = true; };
  EXPECT_THROW(run_all(R"({"batch_size": 4})"), runner::Canceled);
  EXPECT_EQ(model_->computed, 4);
  EXPECT_FALSE(fs::exists(file("train")));
  EXPECT_EQ(context_.all_progress.at(0).phase, "train");
  EXPECT_EQ(context_.all_progress.at(0).steps, 8);
}

TEST_F(FeaturesTest, MicroBatchLimitsTheBatch) {
  policy_->micro_batch = 3;
  run_all(R"({"batch_size": 16})");
  EXPECT_EQ(context_.all_progress.at(0).steps, 10);
}

TEST_F(FeaturesTest, Bf16StorageHalvesTheBytes) {
  const auto features = run("test", R"({"storage": "bf16"})");
  EXPECT_THAT(context_.said, Contains("test: 7 features of 8 values, 112 bytes"));
  const at::Tensor row = features->sample(0, 2)->at("features");
  EXPECT_EQ(row.scalar_type(), at::kFloat);
  EXPECT_TRUE(row.equal(expected(*test_, 2).to(at::kBFloat16).to(at::kFloat)));
}

TEST_F(FeaturesTest, NonFiniteFeatureReportsItsSample) {
  model_->is_broken = true;
  EXPECT_REFUSED(error(), kStageFailed, "", "point0");
}

/// A training run on the output of `data`, always from the same initial weights.
std::shared_ptr<const Checkpoint> trained_on(std::shared_ptr<const Dataset> data,
                                             std::shared_ptr<const Model> model,
                                             RecordingContext& context) {
  const auto stage = stage_of(
      kTrainSupervised, R"({"epochs": 5, "batch_size": 8, "optimizer": {"learning_rate": 0.05}})");
  const runner::Outputs outputs = stage->run(
      runner::Inputs(
          {{"train", {data}}, {"model", {model}}, {"memory", {std::make_shared<MemoryPolicy>()}}}),
      context);
  return std::static_pointer_cast<const Checkpoint>(outputs.at("checkpoint"));
}

TEST_F(FeaturesTest, TrainingOnFeaturesMatchesTrainingOnImages) {
  RecordingContext images_context, features_context;
  const auto features = run("train", R"({"batch_size": 8})");
  model_->computed = 0;
  const auto on_features = trained_on(features, model_, features_context);
  EXPECT_EQ(model_->computed, 0);
  const auto on_images = trained_on(train_, model_, images_context);
  EXPECT_EQ(model_->computed, 5 * 24);  // drop_last
  const auto losses = features_context.values("train/loss"),
             of_images = images_context.values("train/loss");
  ASSERT_EQ(losses.size(), of_images.size());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], of_images[i], 1e-6);
  const NamedTensors a = weights(*on_features->network), b = weights(*on_images->network);
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.allclose(b.at(name), 1e-5, 1e-6)) << name;
  // The weights do not depend on features: predictions use images.
  EXPECT_EQ(on_features->inputs.at(0).name, "image");
  EXPECT_EQ(on_features->transform, train_->transform);
  EXPECT_EQ(read_safetensors(on_features->file).metadata.at("tensors"),
            read_safetensors(on_images->file).metadata.at("tensors"));
}

TEST_F(FeaturesTest, EvaluationOnFeaturesMatchesEvaluationOnImages) {
  RecordingContext training, on_features, on_images;
  const auto features = run("test");
  const auto checkpoint = trained_on(train_, model_, training);
  const auto evaluate = [&](std::shared_ptr<const Dataset> test, RecordingContext& context) {
    auto stage = created(kEvaluateClassification, "{}");
    (*stage)->run(runner::Inputs({{"test", {test}}, {"checkpoint", {checkpoint}}}), context);
    return context.values("evaluate/top1");
  };
  EXPECT_EQ(evaluate(features, on_features), evaluate(test_, on_images));
  EXPECT_EQ(on_features.said, on_images.said);
}

}  // namespace
}  // namespace stages
