#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/results.h"
#include "stages/data/features.h"
#include "stages/few_shot/prototypes.h"
#include "stages/stages.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/shown_dataset.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

constexpr const char* kShape = R"("ways": 3, "shots": 2, "queries": 3)";

/// Uses the points themselves as features.
std::shared_ptr<const FeatureDataset> features_of(const std::shared_ptr<const Dataset>& data) {
  const std::int64_t size = data->describe().size;
  FeatureTable table{.present = torch::ones({size}, torch::kBool), .tensors = {}};
  table.tensors.set("features", torch::empty({size, 2}));
  table.tensors.set("label", torch::empty({size}, torch::kLong));
  for (std::int64_t i = 0; i < size; ++i) {
    const NamedTensors sample = *data->sample(0, i);
    table.tensors.at("features")[i].copy_(sample.at("image"));
    table.tensors.at("label")[i].copy_(sample.at("label"));
  }
  return std::make_shared<FeatureDataset>(data, std::move(table));
}

class PrototypeEvaluationTest : public testing::Test {
 protected:
  static std::unique_ptr<runner::Stage> stage(const std::string& options) {
    return stage_of(kEvaluatePrototypes, "{" + std::string(kShape) + ", " + options + "}");
  }
  nlohmann::json measured(const std::string& options, const runner::Inputs& inputs) {
    stage(options)->run(inputs, context_);
    std::ifstream file(context_.node().folder / "metrics.json", std::ios::binary);
    return nlohmann::json::parse(file);
  }

  const std::shared_ptr<TinyDataset> points_ = std::make_shared<TinyDataset>(60, 5);
  const std::shared_ptr<const FeatureDataset> features_ = features_of(points_);
  const runner::Inputs inputs_{{{"test", {features_}}}};
  RecordingContext context_;
};

TEST_F(PrototypeEvaluationTest, EpisodesMatchThoseOfImagesWithTheSameSeed) {
  const EpisodeSet images(
      points_, {.shape = {.ways = 3, .shots = 2, .queries = 3}, .episodes = 20, .seed = 4},
      "the test data");
  const auto metrics = measured(R"("episodes": 20, "seed": 4)", inputs_);
  EXPECT_EQ(metrics["drawn"], images.fingerprint());
  ASSERT_EQ(metrics["accuracies"].size(), 20u);
  for (std::int64_t index = 0; index < 20; ++index) {
    const NamedTensors episode = *images.sample(0, index);
    const at::Tensor points = episode.at("image");
    const at::Tensor logits =
        prototype_logits(points.slice(0, 0, 6).view({3, 2, 2}), points.slice(0, 6), {});
    const double share =
        logits.argmax(1).eq(episode.at("label")).to(torch::kDouble).mean().item<double>();
    EXPECT_EQ(metrics["accuracies"][static_cast<std::size_t>(index)], share) << index;
  }
  EXPECT_THAT(context_.said.back(), testing::StartsWith("accuracy "));
  EXPECT_EQ(context_.values("evaluate/episode_accuracy").front(), metrics["top1"]);
}

TEST_F(PrototypeEvaluationTest, ImagesOfTheFeaturesAreShown) {
  measured(R"("episodes": 4)", inputs_);
  EXPECT_TRUE(written_examples(context_.node().folder).is_null()) << "points are not images";
  const auto features = features_of(std::make_shared<ShownSamples>(points_));
  measured(R"("episodes": 4)", runner::Inputs({{"test", {features}}}));
  EXPECT_THAT(names_of_group(written_examples(context_.node().folder), "support images"),
              testing::SizeIs(6));
}

TEST_F(PrototypeEvaluationTest, MeanOfTheBaseFeaturesIsSubtracted) {
  const auto plain = measured(R"("episodes": 40)", inputs_);
  // The points lie on a circle around the origin, so subtracting their mean changes little; the
  // mean of a single class moves the origin into that class.
  const auto one_class = std::make_shared<TinyDataset>(30, 1);
  const auto moved =
      measured(R"("episodes": 40)",
               runner::Inputs({{"test", {features_}}, {"base", {features_of(one_class)}}}));
  EXPECT_NE(moved["accuracies"], plain["accuracies"]);
  EXPECT_EQ(moved["drawn"], plain["drawn"]);
}

TEST_F(PrototypeEvaluationTest, PlanCoversOneEpisodeAtATime) {
  PlanningContext few, many;
  stage(R"("episodes": 4)")->plan(inputs_, few);
  stage(R"("episodes": 600)")->plan(inputs_, many);
  ASSERT_TRUE(few.planned && many.planned);
  EXPECT_EQ(few.planned->live, many.planned->live);
  EXPECT_LT(few.planned->needed,
            many.planned->needed);  // by the results kept for each episode
}

TEST_F(PrototypeEvaluationTest, ImagesAreRejected) {
  const runner::Inputs images({{"test", {points_}}});
  EXPECT_REFUSED(measured(R"("episodes": 4)", images), kOptionConflict, "", "images, not features");
  const runner::Inputs base({{"test", {features_}}, {"base", {points_}}});
  EXPECT_REFUSED(measured(R"("episodes": 4)", base), kOptionConflict, "", "base");
}

TEST_F(PrototypeEvaluationTest, TooManyWaysAreRejected) {
  EXPECT_REFUSED(stage_of(kEvaluatePrototypes, R"({"ways": 9, "shots": 2, "queries": 3})")
                     ->run(inputs_, context_),
                 kTooFewSamples, "/ways", "5 classes");
}

}  // namespace
}  // namespace stages
