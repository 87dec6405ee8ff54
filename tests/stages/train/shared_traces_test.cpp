#include "stages/train/shared_traces.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/stages.h"
#include "tests/support/planning_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

/// Training nodes of one graph, planned one after another.
struct SharedPlans {
  std::shared_ptr<Dataset> train = std::make_shared<TinyDataset>(42, 4),
                           validation = std::make_shared<TinyDataset>(20, 4);
  std::shared_ptr<TinyModel> model = std::make_shared<TinyModel>();
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  PlanningContext context;

  SharedPlans() { policy->pointer = "/memory"; }

  std::size_t count() { return context.shelf().of<SharedTraces>().count(); }

  /// Returns the plan of train.binary as JSON, or "refused: …" if it is rejected.
  std::string plan(Json options, PlanningContext& in) {
    options["learning_rate_factors"] = {{"backbone", 1.0}};
    options["optimizer"] = {{"learning_rate", 0.05}};
    const auto stage = stage_of(kTrainBinary, options);
    runner::Inputs::ByPort inputs = {{"model", {model}}, {"memory", {policy}}, {"train", {train}}};
    if (validation) inputs["validation"] = {validation};
    try {
      stage->plan(runner::Inputs(inputs, {{"model", "model"}}), in);
    } catch (const runner::StageError& error) {
      return std::string("refused: ") + error.what();
    }
    return to_json(*in.planned).dump();
  }
  /// Plans within the graph, and expects the same plan as for this training node alone.
  void expect_plan(const Json& options) {
    PlanningContext alone;
    alone.facts = context.facts;
    alone.asked = context.asked;
    alone.kept_by_others = context.kept_by_others;
    EXPECT_EQ(plan(options, context), plan(options, alone)) << options;
  }
};

Json pair_of(int first, int second, Json more = Json::object()) {
  more["classes"] = {first, second};
  if (!more.contains("batch_size")) more["batch_size"] = 8;
  return more;
}

TEST(SharedTraces, PairsOfOneModelAreTracedOnce) {
  SharedPlans plans;
  plans.expect_plan(pair_of(0, 1));  // of 22 samples
  EXPECT_EQ(plans.count(), 1u);
  plans.context.facts.seed = 7;
  plans.expect_plan(pair_of(1, 0));
  EXPECT_EQ(plans.count(), 1u);
  plans.expect_plan(pair_of(0, 2));  // of 21: the last batch differs
  plans.expect_plan(pair_of(3, 1));  // the same
  EXPECT_EQ(plans.count(), 2u);
}

TEST(SharedTraces, DifferentStructuresAreTracedSeparately) {
  SharedPlans plans;
  plans.expect_plan(pair_of(0, 1));
  plans.expect_plan(pair_of(0, 1, {{"batch_size", 4}}));
  EXPECT_EQ(plans.count(), 2u);
  plans.expect_plan(pair_of(0, 1, {{"class_weights", {1.0, 2.0, 1.0, 1.0}}}));
  EXPECT_EQ(plans.count(), 3u);
  plans.expect_plan(pair_of(0, 1, {{"class_weights", {4.0, 3.0, 2.0, 1.0}}}));
  EXPECT_EQ(plans.count(), 3u);
  plans.expect_plan(pair_of(0, 1, {{"loss", {{"kind", "focal"}}}}));
  EXPECT_EQ(plans.count(), 4u);
  plans.expect_plan(pair_of(0, 1, {{"keep", "last"}}));
  EXPECT_EQ(plans.count(), 5u);
  plans.validation = std::make_shared<TinyDataset>(12, 4);  // six per pair, less than a batch
  plans.expect_plan(pair_of(0, 1));
  EXPECT_EQ(plans.count(), 6u);
  const Json unmeasured =
      pair_of(0, 1, {{"patience", nullptr}, {"schedule", {{"kind", "constant"}}}});
  plans.expect_plan(unmeasured);
  EXPECT_EQ(plans.count(), 7u);
  const auto validation = std::exchange(plans.validation, nullptr);
  plans.expect_plan(unmeasured);
  EXPECT_EQ(plans.count(), 8u);
  plans.validation = validation;
  const auto before = plans.model;
  plans.model = std::make_shared<TinyModel>();
  plans.expect_plan(pair_of(0, 1));
  EXPECT_EQ(plans.count(), 9u);
  plans.policy = std::make_shared<MemoryPolicy>(*plans.policy);
  plans.policy->micro_batch = 2;
  plans.expect_plan(pair_of(0, 1));
  EXPECT_EQ(plans.count(), 10u);
  plans.context.facts.resuming = true;
  plans.expect_plan(pair_of(0, 1));
  EXPECT_EQ(plans.count(), 12u);  // in micro-batches, and whole to report the savings
}

TEST(SharedTraces, KeptMemoryAndReadAheadArePerNode) {
  SharedPlans plans;
  plans.expect_plan(pair_of(0, 1));
  const std::string before = plans.plan(pair_of(1, 0), plans.context);
  plans.context.kept_by_others = {{"train.0-1.checkpoint", 1000, ""}};
  plans.expect_plan(pair_of(1, 0));
  EXPECT_NE(plans.plan(pair_of(1, 0), plans.context), before);
  EXPECT_EQ(plans.count(), 1u);
}

TEST(SharedTraces, ChosenPoliciesAreShared) {
  SharedPlans plans;
  plans.policy->allow = Allow::kExact;
  plans.policy->two_pass_is_open = plans.policy->checkpointing_is_open = true;
  plans.context.asked.budget = {"the test", 1 << 20, ""};
  plans.expect_plan(pair_of(0, 1));
  const std::size_t ways = plans.count();
  EXPECT_GT(ways, 1u);
  plans.expect_plan(pair_of(1, 0));
  EXPECT_EQ(plans.count(), ways);
}

TEST(SharedTraces, RejectionsAreShared) {
  SharedTraces traces;
  TracedAs as;
  int asked = 0;
  const auto refuse = [&]() -> TracedPolicy {
    ++asked;
    throw runner::StageError(runner::ErrorCode::kOptionConflict, "it mixes samples")
        .at("/micro_batch");
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_REFUSED(traces.of(as, refuse), kOptionConflict, "/micro_batch", "it mixes samples");
  }
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace stages
