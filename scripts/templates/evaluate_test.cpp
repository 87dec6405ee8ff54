#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

TEST(EvaluateNovel, UnknownOptionIsRejected) {
  const runner::Value value = stage_options("evaluate/novel", R"({"batch": 3})");
  runner::ConfigReader reader(value, "/evaluate");
  const auto stage = kEvaluateNovel.create(reader);
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors()[0].pointer, "/evaluate/batch");
}

TEST(EvaluateNovel, AccuracyIsTheShareOfCorrectPredictions) {
  const runner::Value value = stage_options("evaluate/novel", R"({"batch_size": 4})");
  runner::ConfigReader reader(value, "/evaluate");
  const auto stage = kEvaluateNovel.create(reader);
  ASSERT_TRUE(stage);

  // The network predicts class 0 for every point. That is correct for a third of the points, except
  // for two with changed labels.
  const auto data = std::make_shared<TinyDataset>(12);
  data->labels = {{0, 1}, {3, 2}};
  const auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->model = std::make_shared<TinyModel>();
  checkpoint->network = checkpoint->model->build(data->describe(), 1);
  checkpoint->classes = data->describe().classes;
  checkpoint->step = 8;
  {
    const torch::NoGradGuard no_graph;
    for (at::Tensor& weight : checkpoint->network->parameters()) weight.zero_();
    checkpoint->network->parameters().back()[0] = 1;
  }
  checkpoint->network->eval();
  RecordingContext context;
  const runner::Outputs outputs =
      (*stage)->run(runner::Inputs({{"test", {data}}, {"checkpoint", {checkpoint}}}), context);
  const auto metrics =
      runner::Inputs({{"metrics", {outputs.at("metrics")}}}).get<Metrics>("metrics");
  EXPECT_THAT(metrics->values, testing::ElementsAre(testing::Pair("accuracy", 2.0 / 12)));
  EXPECT_EQ(context.values("evaluate/accuracy"), (std::vector<double>{2.0 / 12}));
  EXPECT_EQ(context.steps("evaluate/accuracy"), (std::vector<std::int64_t>{8}));
}

}  // namespace
}  // namespace stages
