#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/stages.h"
#include "tests/support/on_test_device.h"
#include "tests/support/planning_context.h"
#include "tests/support/prototype_model.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/shown_dataset.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using testing::HasSubstr;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class EpisodicEvaluation : public testing::Test {
 protected:
  EpisodicEvaluation() {
    const EpisodeSet trained(data_, {.shape = {.ways = 3, .shots = 2, .queries = 3}},
                             "the training data");
    checkpoint_->model = model_;
    checkpoint_->network = on_test_device(model_->build({}, 3));
    checkpoint_->inputs = trained.describe().tensors;
    checkpoint_->classes = {"other"};
    checkpoint_->step = 9;
  }
  std::unique_ptr<runner::Stage> stage(const std::string& options) const {
    return stage_of(kEvaluateEpisodic, options);
  }
  runner::Inputs inputs() const {
    return runner::Inputs({{"test", {data_}}, {"checkpoint", {checkpoint_}}});
  }
  runner::Outputs run(const std::string& options) {
    return stage(options)->run(inputs(), context_);
  }

  std::shared_ptr<TinyDataset> data_ = std::make_shared<TinyDataset>(60, 5);
  const std::shared_ptr<PrototypeModel> model_ = std::make_shared<PrototypeModel>();
  const std::shared_ptr<Checkpoint> checkpoint_ = std::make_shared<Checkpoint>();
  RecordingContext context_;
};

TEST_F(EpisodicEvaluation, SavesExampleImages) {
  const auto shown = std::make_shared<ShownSamples>(data_);
  stage(R"({"episodes": 4, "examples": 3})")
      ->run(runner::Inputs({{"test", {shown}}, {"checkpoint", {checkpoint_}}}), context_);
  EXPECT_THAT(names_of_group(written_examples(context_.node().folder), "support images"),
              testing::SizeIs(3));
}

TEST_F(EpisodicEvaluation, MeasuresEveryEpisodeAndTheirMean) {
  const runner::Outputs outputs = run(R"({"episodes": 30})");
  const auto metrics = nlohmann::json::parse(text_of(context_.node().folder / "metrics.json"));
  EXPECT_EQ(metrics["episodes"], 30);
  EXPECT_GT(metrics["top1"], 0.6);  // the points of a class are close together
  EXPECT_EQ(metrics["per_class"].size(), 5u);
  EXPECT_THAT(context_.said.back(), testing::StartsWith("accuracy "));
  EXPECT_EQ(context_.values("evaluate/episode_accuracy").front(), metrics["top1"]);

  const std::string lines = text_of(context_.node().folder / "episodes.csv");
  EXPECT_EQ(std::ranges::count(lines, '\n'), 31);
  double sum = 0;
  std::istringstream stream(lines);
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) sum += std::stod(line.substr(line.find(',') + 1));
  EXPECT_NEAR(sum / 30, metrics["top1"].get<double>(), 1e-12);
  EXPECT_THAT(text_of(context_.node().folder / "confusion_matrix.csv"), HasSubstr("class4"));
}

TEST_F(EpisodicEvaluation, EpisodesAreTheSameForAnyModel) {
  run(R"({"episodes": 8})");
  const std::string first = text_of(context_.node().folder / "episodes.csv");
  const auto classes = [](const std::string& csv) {
    std::vector<std::string> all;
    std::istringstream stream(csv);
    for (std::string line; std::getline(stream, line);) all.push_back(line.substr(line.rfind(',')));
    return all;
  };
  checkpoint_->network = on_test_device(model_->build({}, 99));
  run(R"({"episodes": 8})");
  EXPECT_EQ(classes(text_of(context_.node().folder / "episodes.csv")), classes(first));
}

TEST_F(EpisodicEvaluation, ShapesMayDifferFromTraining) {
  run(R"({"episodes": 4, "ways": 5, "shots": 1, "queries": 2})");
  const auto metrics = nlohmann::json::parse(text_of(context_.node().folder / "metrics.json"));
  EXPECT_DOUBLE_EQ(metrics["chance"], 0.2);
}

TEST_F(EpisodicEvaluation, PlanCoversOneEpisodeAtATime) {
  PlanningContext few, many;
  stage(R"({"episodes": 4})")->plan(inputs(), few);
  stage(R"({"episodes": 600})")->plan(inputs(), many);
  ASSERT_TRUE(few.planned && many.planned);
  EXPECT_EQ(few.planned->live, many.planned->live);
  EXPECT_LT(few.planned->needed,
            many.planned->needed);  // by the results kept for each episode
}

TEST_F(EpisodicEvaluation, TrainedClassesAreReported) {
  checkpoint_->classes = {"class0", "class3", "other"};
  run(R"({"episodes": 2})");
  EXPECT_EQ(
      context_.said.front(),
      "the model was trained on 2 of the 5 test classes, such as 'class0': this does not measure "
      "accuracy on new classes");
}

TEST_F(EpisodicEvaluation, ModelNotTrainedOnEpisodesIsRejected) {
  checkpoint_->inputs = data_->describe().tensors;
  EXPECT_REFUSED(run("{}"), kOptionConflict, "", "episodes");
}

}  // namespace
}  // namespace stages
