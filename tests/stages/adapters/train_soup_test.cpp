#include <filesystem>
#include <fstream>
#include <mutex>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/ranks/rank_group.h"
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

/// A TinyModel that builds one network at a time, since the ranks of a test are threads that share
/// LibTorch's random numbers.
class BuiltInTurn final : public Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    const std::lock_guard lock(mutex_);
    return tiny_.build(data, seed);
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return tiny_.outline(data);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    return tiny_.forward(network, inputs);
  }
  bool mixes_samples() const override { return tiny_.mixes_samples(); }

 private:
  const TinyModel tiny_{};
  mutable std::mutex mutex_;
};

/// Two training nodes that train TinyModel from the same start, and a soup of their weights.
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
  std::shared_ptr<const Model> model_ = std::make_shared<BuiltInTurn>();
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

TEST_F(TrainSoup, RanksGiveTheSameBitsAsOneProcess) {
  for (Json options :
       {both("greedy"), both("uniform"), Json{{"runs", {first()}}, {"method", "interpolation"}}}) {
    options["batch_size"] = 5;  // three batches, the last of two samples
    std::vector<NamedTensors> results;
    std::vector<Json> tables;
    for (const int ranks : {1, 2, 4}) {
      std::vector<std::unique_ptr<RecordingContext>> contexts;
      for (int i = 0; i < ranks; ++i) contexts.push_back(std::make_unique<RecordingContext>());
      run_as_ranks(ranks, [&](const runner::RankOfRun& own) {
        RecordingContext& context = *contexts[static_cast<std::size_t>(own.rank)];
        context.facts.ranks = own;
        context.facts.device = "cpu";
        const auto checkpoint = std::static_pointer_cast<const Checkpoint>(
            stage_of(kTrainSoup, options)->run(inputs(), context).at("checkpoint"));
        if (own.rank == 0) results.push_back(read_safetensors(checkpoint->file).tensors);
      });
      tables.push_back(Json::parse(std::ifstream(contexts[0]->node().folder / "soup.json")));
      for (int i = 1; i < ranks; ++i) {
        const RecordingContext& other = *contexts[static_cast<std::size_t>(i)];
        EXPECT_TRUE(other.metrics.empty()) << "only rank 0 records";
        EXPECT_TRUE(std::filesystem::is_empty(other.node().folder)) << "only rank 0 saves";
        EXPECT_EQ(other.all_progress.empty(), i == 3) << "three batches for three ranks";
      }
    }
    for (std::size_t i = 1; i < results.size(); ++i) {
      expect_equal(results[0], results[i]);
      EXPECT_EQ(tables[0], tables[i]) << options;
    }
  }
}

TEST_F(TrainSoup, RanksWithDifferentWeightsAreRejected) {
  RecordingContext other;
  const std::string third = (context_.node().folder / "third.safetensors").string();
  write_safetensors(third, weights(*model_->build(first_.train_data->describe(), 9)));
  EXPECT_THROW(run_as_ranks(2,
                            [&](const runner::RankOfRun& own) {
                              RecordingContext& context = own.rank == 0 ? context_ : other;
                              context.facts.ranks = own;
                              context.facts.device = "cpu";
                              Json options = both("greedy");
                              if (own.rank == 1) options["runs"] = {first(), third};
                              stage_of(kTrainSoup, options)->run(inputs(), context);
                            }),
               runner::StageError);
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

TEST_F(TrainSoup, DifferentClassesAreRejected) {
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
