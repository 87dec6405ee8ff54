#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/data/features.h"
#include "stages/memory/policy.h"
#include "stages/ranks/rank_group.h"
#include "stages/stages.h"
#include "stages/train/calibration.h"
#include "stages/train/softmax_fit.h"
#include "stages/weights/weights.h"
#include "tests/support/model_of.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/small_backbone.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kWidth = 6;  // the width of the features of small()

/// Images of three species in turn, which are never read.
class Flowers final : public Dataset {
 public:
  explicit Flowers(std::int64_t size) : size_(size) {}
  DatasetDescription describe() const override {
    DatasetDescription description = flowers();
    description.size = size_;
    return description;
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t) const override {
    return std::nullopt;
  }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  LoaderOptions loader() const override { return {}; }

 private:
  const std::int64_t size_;
};

/// Features of such images, around one point per species.
FeatureTable table_of(std::int64_t size, std::uint64_t seed) {
  torch::manual_seed(static_cast<std::int64_t>(seed));
  const at::Tensor labels = torch::arange(size).remainder(3);
  FeatureTable table{.present = torch::ones({size}, at::kBool), .tensors = {}};
  table.tensors.set("features", torch::randn({size, kWidth}) + labels.unsqueeze(1));
  table.tensors.set("label", labels);
  return table;
}

std::shared_ptr<const Dataset> features_of(std::int64_t size, std::uint64_t seed) {
  return std::make_shared<FeatureDataset>(std::make_shared<Flowers>(size), table_of(size, seed));
}

class LogisticRegression : public testing::Test {
 protected:
  runner::Inputs inputs() const {
    runner::Inputs::ByPort ports = {
        {"train", {train_}}, {"model", {model_}}, {"memory", {policy_}}};
    if (validation_) ports["validation"] = {validation_};
    return runner::Inputs(ports, {{"model", "model"}});
  }
  std::shared_ptr<const Checkpoint> run(const Json& options = Json::object()) {
    const auto stage = stage_of(kTrainLogisticRegression, options);
    return std::static_pointer_cast<const Checkpoint>(
        stage->run(inputs(), context_).at("checkpoint"));
  }
  /// What each rank of a run has reported and returned.
  struct OnRanks {
    std::vector<std::unique_ptr<RecordingContext>> contexts;
    std::vector<std::shared_ptr<const Checkpoint>> results;
  };
  OnRanks run_on(int ranks, const Json& options = Json::object()) {
    OnRanks all;
    all.results.resize(static_cast<std::size_t>(ranks));
    for (int i = 0; i < ranks; ++i) all.contexts.push_back(std::make_unique<RecordingContext>());
    run_as_ranks(ranks, [&](const runner::RankOfRun& own) {
      const auto index = static_cast<std::size_t>(own.rank);
      RecordingContext& context = *all.contexts[index];
      context.facts.ranks = own;
      const auto stage = stage_of(kTrainLogisticRegression, options);
      all.results[index] = std::static_pointer_cast<const Checkpoint>(
          stage->run(inputs(), context).at("checkpoint"));
    });
    return all;
  }
  runner::Diagnostics refusal(const Json& options = Json::object()) {
    return refusals_of([&] { run(options); });
  }
  Json measured() const {
    return Json::parse(std::ifstream(context_.node().folder / "l2_strengths.json"));
  }
  static at::Tensor head(const Checkpoint& checkpoint) {
    return weights(*checkpoint.network).at("head.weight");
  }

  std::shared_ptr<const Dataset> train_ = features_of(90, 1), validation_ = features_of(60, 2);
  std::shared_ptr<const Model> model_ = model_of(kModelLinearProbe, {{"backbone", small()}});
  std::shared_ptr<MemoryPolicy> policy_ = std::make_shared<MemoryPolicy>();
  RecordingContext context_, other_;
};

TEST_F(LogisticRegression, HeadIsFittedToAllDataWithTheChosenStrength) {
  const auto checkpoint = run();
  const double chosen = measured().at("chosen");
  const FeatureTable train = table_of(90, 1), validation = table_of(60, 2);
  const auto both = [&](const char* name) {
    return torch::cat({train.tensors.at(name), validation.tensors.at(name)});
  };
  const SoftmaxFit expected = fit_softmax(both("features").to(at::kDouble), both("label"),
                                          {.classes = 3, .l2_strength = chosen});
  EXPECT_TRUE(torch::equal(head(*checkpoint).cpu(), expected.weight.to(at::kFloat)));
  EXPECT_EQ(context_.values("train/l2_strength"), std::vector<double>{chosen});
}

TEST_F(LogisticRegression, ChosenStrengthHasTheBestRecordedAccuracy) {
  run();
  const Json all = measured().at("measured");
  EXPECT_EQ(all.size(), 15u);
  double best = 0, of_chosen = 0;
  for (const Json& one : all) {
    best = std::max(best, one.at("validation_accuracy").get<double>());
    if (one.at("l2_strength") == measured().at("chosen")) of_chosen = one.at("validation_accuracy");
  }
  EXPECT_EQ(of_chosen, best);
  EXPECT_EQ(context_.values("search/accuracy").size(), all.size());
}

TEST_F(LogisticRegression, RanksGiveTheSameBitsAsASingleRank) {
  const OnRanks one = run_on(1);
  for (const int ranks : {2, 3}) {
    const OnRanks all = run_on(ranks);
    EXPECT_TRUE(torch::equal(head(*all.results[0]), head(*one.results[0]))) << ranks;
    EXPECT_EQ(all.contexts[0]->metrics, one.contexts[0]->metrics) << ranks;
    EXPECT_EQ(all.contexts[0]->said, one.contexts[0]->said) << ranks;
  }
}

TEST_F(LogisticRegression, OnlyTheFirstRankRecordsAndSaves) {
  std::size_t fits = 0;
  const OnRanks all = run_on(3);
  for (const auto& context : all.contexts) {
    fits += context->all_progress.size();
    if (context == all.contexts[0]) continue;
    EXPECT_THAT(context->metrics, IsEmpty());
    EXPECT_THAT(context->said, IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(context->node().folder));
    EXPECT_GT(context->all_progress.size(), 1u) << "it has fitted some of the strengths";
  }
  EXPECT_EQ(fits, all.contexts[0]->values("search/accuracy").size())
      << "no strength is fitted twice";
  EXPECT_TRUE(head(*all.results[1]).is_meta());
}

TEST_F(LogisticRegression, OtherRanksDoNothingIfTheStrengthIsGiven) {
  const OnRanks all = run_on(2, {{"l2_strength", 1}});
  EXPECT_FALSE(all.contexts[0]->values("train/loss").empty());
  EXPECT_TRUE(std::filesystem::is_empty(all.contexts[1]->node().folder));
  EXPECT_THAT(all.contexts[1]->all_progress, IsEmpty());
}

TEST_F(LogisticRegression, RanksWithDifferentDataAreRejected) {
  const auto theirs = features_of(91, 1);
  EXPECT_THROW(run_as_ranks(2,
                            [&](const runner::RankOfRun& own) {
                              RecordingContext& context = own.rank == 0 ? context_ : other_;
                              context.facts.ranks = own;
                              runner::Inputs::ByPort ports = {
                                  {"train", {own.rank == 0 ? train_ : theirs}},
                                  {"validation", {validation_}},
                                  {"model", {model_}},
                                  {"memory", {policy_}}};
                              stage_of(kTrainLogisticRegression, Json::object())
                                  ->run(runner::Inputs(ports, {{"model", "model"}}), context);
                            }),
               runner::StageError);
}

TEST_F(LogisticRegression, ValidationDataIsUnusedWithoutRefit) {
  const Json options = {{"l2_strength", 1}, {"refit", false}};
  const at::Tensor with = head(*run(options));
  validation_ = features_of(60, 77);
  context_.facts.resuming = true;  // in the same folder
  EXPECT_TRUE(torch::equal(head(*run(options)), with));
  EXPECT_EQ(context_.values("validation/accuracy").size(), 2u);
}

/// Returns options that calibrate the probabilities.
Json calibrated(bool refits = false) {
  return {{"l2_strength", 1},
          {"refit", refits},
          {"calibration", {{"temperature", true}, {"cut_points", true}, {"sensitivity", nullptr}}}};
}

TEST_F(LogisticRegression, CalibrationIsFittedToTheValidationData) {
  const auto checkpoint = run(calibrated());
  const FeatureTable validation = table_of(60, 2);
  const NamedTensors fitted = weights(*checkpoint->network);
  const at::Tensor logits =
      torch::addmm(fitted.at("head.bias").cpu(), validation.tensors.at("features"),
                   fitted.at("head.weight").cpu().t());
  const FittedDecision wanted =
      fitted_decision(calibration_rows(logits, validation.tensors.at("label")),
                      {.temperature = true, .cut_points = true, .sensitivity = {}});
  const FittedDecision decision = decision_of(*checkpoint);
  EXPECT_NE(decision.temperature, 1);
  // The head is rounded to float32.
  EXPECT_NEAR(decision.temperature, wanted.temperature, 1e-3 * wanted.temperature);
  EXPECT_EQ(decision.cut_points.size(), 2u);
  context_.facts.resuming = true;  // in the same folder
  EXPECT_EQ(decision_of(*run({{"l2_strength", 1}, {"refit", false}})).temperature, 1);
}

TEST_F(LogisticRegression, CalibrationNeedsHeldOutValidationData) {
  EXPECT_REFUSED(refusal(calibrated(/*refits=*/true)), kOptionConflict, "/calibration",
                 "refit: true", "refit: false");
  validation_ = nullptr;
  EXPECT_REFUSED(refusal(calibrated()), kTooFewSamples, "/calibration", "validation data");
}

TEST_F(LogisticRegression, PlanIncludesTheCalibration) {
  PlanningContext context;
  stage_of(kTrainLogisticRegression, calibrated())->plan(inputs(), context);
  std::int64_t bytes = 0;
  for (const runner::NamedBytes& term : context.planned.value().terms)
    if (term.name == "calibration") bytes = term.bytes;
  EXPECT_EQ(bytes, 60 * calibration_bytes({.temperature = true, .sensitivity = {}}, 3));
  EXPECT_GT(bytes, 0);
}

TEST_F(LogisticRegression, GivenStrengthNeedsNoValidationData) {
  validation_ = nullptr;
  EXPECT_REFUSED(refusal(), kOptionConflict, "/l2_strength", "no validation data");
  EXPECT_THAT(refusal({{"l2_strength", 0.5}}), IsEmpty());
}

TEST_F(LogisticRegression, ResumedRunStartsOver) {
  const at::Tensor whole = head(*run());
  context_.facts.resuming = true;
  EXPECT_TRUE(torch::equal(head(*run()), whole));
  EXPECT_EQ(context_.resumed_at, 0);
}

TEST_F(LogisticRegression, SavedWeightsAreUsedInsteadOfFitting) {
  const auto first = run();
  context_.facts.trained =
      runner::CheckpointSource{.folder = context_.node().folder / "checkpoints"};
  const std::size_t metrics = context_.metrics.size();
  const auto again = run();
  EXPECT_TRUE(torch::equal(head(*again), head(*first)));
  EXPECT_EQ(context_.metrics.size(), metrics);
}

TEST_F(LogisticRegression, OtherRanksDoNothingIfTheResultIsReused) {
  const auto first = run();
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    RecordingContext& context = own.rank == 0 ? context_ : other_;
    context.facts.ranks = own;
    if (own.rank == 0)
      context.facts.trained =
          runner::CheckpointSource{.folder = context.node().folder / "checkpoints", .reused = true};
    stage_of(kTrainLogisticRegression, Json::object())->run(inputs(), context);
  });
  EXPECT_THAT(other_.all_progress, IsEmpty());
}

TEST_F(LogisticRegression, ModelWithoutAHeadOnFeaturesIsRejected) {
  const auto features = std::exchange(train_, std::make_shared<Flowers>(90));
  EXPECT_REFUSED(refusal(), kOptionConflict, "", "no features");
  train_ = features;
  model_ = model_of(kModelFull, {{"backbone", small()}});
  EXPECT_REFUSED(refusal(), kOptionConflict, "", "'model' is not a linear head");
}

TEST_F(LogisticRegression, UnconvergedFitIsReported) {
  run({{"l2_strength", 1e-6}, {"max_steps", 2}});
  EXPECT_THAT(context_.said, Contains(HasSubstr("not converged after 2 steps")));
}

TEST_F(LogisticRegression, PlanCountsTheFit) {
  PlanningContext context;
  const auto stage = stage_of(kTrainLogisticRegression, Json::object());
  stage->plan(inputs(), context);
  ASSERT_TRUE(context.planned);
  std::int64_t features = 0, fit = 0;
  for (const runner::NamedBytes& term : context.planned->terms) {
    if (term.name == "features of the fit") features = term.bytes;
    if (term.name == "fit") fit = term.bytes;
  }
  EXPECT_EQ(features, 150 * (8 * kWidth + 8));
  EXPECT_EQ(fit, softmax_fit_bytes(150, kWidth, 3, 8));
}

TEST_F(LogisticRegression, StopsWhenTheRunIsCanceled) {
  context_.is_canceled = true;
  EXPECT_THROW(run(), runner::Canceled);
}

}  // namespace
}  // namespace stages
