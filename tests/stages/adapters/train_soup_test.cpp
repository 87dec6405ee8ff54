#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/weights/interpolated_weights.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/planning_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

/// Two trainings of TinyModel from one start, and a soup of them.
class TrainSoup : public testing::Test {
 protected:
  TrainSoup() {
    for (TinyTraining* const one : {&first_, &second_}) {
      one->options.keep = Keep::kLast;
      one->context.facts.seed = one == &first_ ? 1 : 2;
      one->run();
    }
    write_safetensors(first(), weights(*first_.network));
    write_safetensors(second(), weights(*second_.network));
  }
  std::string first() const { return (context_.node().folder / "first.safetensors").string(); }
  std::string second() const { return (context_.node().folder / "second.safetensors").string(); }
  Json both(const std::string& method) const {
    return {{"runs", {first(), second()}}, {"method", method}};
  }
  runner::Inputs inputs() const {
    return runner::Inputs({{"train", {first_.train_data}},
                           {"validation", {first_.validation}},
                           {"model", {model_}},
                           {"memory", {policy_}}},
                          {{"model", "model"}});
  }
  NamedTensors run(const Json& options) {
    const auto stage = stage_of(kTrainSoup, options);
    const auto checkpoint =
        std::static_pointer_cast<const Checkpoint>(stage->run(inputs(), context_).at("checkpoint"));
    const NamedTensors saved = read_safetensors(checkpoint->file).tensors;
    for (const auto& [name, weight] : weights(*checkpoint->network))
      EXPECT_TRUE(torch::equal(saved.at(name), weight.cpu())) << name;
    return saved;
  }
  Json table() const { return Json::parse(std::ifstream(context_.node().folder / "soup.json")); }
  static void expect_equal(const NamedTensors& a, const NamedTensors& b) {
    for (const auto& [name, weight] : a)
      EXPECT_TRUE(torch::equal(weight.cpu(), b.at(name).cpu())) << name;
  }
  TinyTraining first_, second_;
  std::shared_ptr<const Model> model_ = std::make_shared<TinyModel>();
  std::shared_ptr<MemoryPolicy> policy_ = std::make_shared<MemoryPolicy>();
  RecordingContext context_;
};

TEST_F(TrainSoup, UniformSoupIsTheAverage) {
  expect_equal(run(both("uniform")),
               interpolated_weights(weights(*first_.network), weights(*second_.network), 0.5));
  EXPECT_EQ(table().at("measured").size(), 1u);
}

TEST_F(TrainSoup, GreedySoupIsAtLeastAsGoodAsEachRun) {
  run(both("greedy"));
  const Json all = table();
  for (const Json& one : all.at("measured"))
    EXPECT_GE(all.at("chosen").at("accuracy"), one.at("accuracy"));
  EXPECT_EQ(context_.values("validation/accuracy"),
            std::vector<double>{all.at("chosen").at("accuracy")});
}

TEST_F(TrainSoup, InterpolationStartsFromTheModelWeights) {
  const Json options = {{"runs", {first()}}, {"method", "interpolation"}};
  Json start = options, end = options;
  start["alphas"] = {0};
  end["alphas"] = {1};
  context_.facts.seed = 7;
  expect_equal(run(start), weights(*model_->build(first_.train_data->describe(), 7)));
  expect_equal(run(end), weights(*first_.network));
  run(options);
  EXPECT_EQ(table().at("measured").size(), 11u);
}

TEST_F(TrainSoup, PlanCountsTheCopiesAndChecksTheRuns) {
  PlanningContext context;
  stage_of(kTrainSoup, both("greedy"))->plan(inputs(), context);
  std::filesystem::remove(second());
  EXPECT_REFUSED(stage_of(kTrainSoup, both("greedy"))->plan(inputs(), context), kMissingWeights,
                 "/runs/1", second());
}

TEST_F(TrainSoup, MismatchedShapesAreRejectedByName) {
  NamedTensors other = weights(*second_.network);
  const std::string name = other.begin()->first;
  other.set(name, torch::zeros({1}));
  write_safetensors(second(), other);
  EXPECT_REFUSED(run(both("greedy")), kOptionConflict, "/runs/1", second(), name);
}

TEST_F(TrainSoup, OtherClassesAreRejected) {
  TinyTraining renamed;
  renamed.train_data->class_names = {"a", "b", "c"};
  renamed.run();
  Json runs = both("greedy");
  runs["runs"][1] = (renamed.context.node().folder / "checkpoints").string();
  EXPECT_REFUSED(run(runs), kOptionConflict, "/runs/1", "different classes", "'a'");
}

TEST_F(TrainSoup, InterpolationRequiresOneRun) {
  EXPECT_REFUSED(created(kTrainSoup, both("interpolation")), kOptionConflict, "/train/runs");
}

}  // namespace
}  // namespace stages
