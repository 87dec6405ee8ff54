#include "stages/train/step_plan.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

class SomeStep final : public TrainingStep {
 public:
  explicit SomeStep(Coupling coupling, bool mixes = false, std::int64_t samples_in_group = 0)
      : coupling_(coupling), mixes_(mixes), samples_in_group_(samples_in_group) {}
  std::vector<LossTerm> terms() const override {
    return {{"first", Coupling::kPerSample},
            {.name = "second", .coupling = coupling_, .samples_in_group = samples_in_group_}};
  }
  bool mixes_samples() const override { return mixes_; }
  bool mixes_over_ranks() const override { return over_ranks; }
  NamedTensors encode(torch::nn::Module&, const Batch&) const override { return {}; }
  NamedTensors loss(const NamedTensors&, const Batch&) const override { return {}; }

  bool over_ranks = false;

 private:
  const Coupling coupling_;
  const bool mixes_;
  const std::int64_t samples_in_group_;
};

MemoryPolicy policy(std::optional<std::int64_t> micro_batch) {
  MemoryPolicy policy;
  policy.micro_batch = micro_batch;
  return policy;
}

runner::Diagnostics refusal(const SomeStep& step, std::int64_t micro_batch, std::int64_t units) {
  return refusals_of([&] { make_step_plan(step, policy(micro_batch), units, {}, {}); });
}

TEST(StepPlan, AutoIsTheWholeBatch) {
  EXPECT_EQ(
      make_step_plan(SomeStep(Coupling::kWholeBatch, true), policy({}), 64, {}, {}).micro_batch, 0);
  EXPECT_EQ(parts({.micro_batch = 0}, 64), 1);
}

TEST(StepPlan, SamplesAndGroupsCanBeSplit) {
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kPerSample), policy(24), 64, {}, {}).micro_batch, 24);
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kPerGroup), policy(24), 64, {}, {}).micro_batch, 24);
  EXPECT_EQ(parts({.micro_batch = 24}, 64), 3);
}

TEST(StepPlan, GroupedBatchIsOnlySplitBetweenGroups) {
  const SomeStep step(Coupling::kPerGroup, false, /*samples_in_group=*/16);
  EXPECT_EQ(make_step_plan(step, policy(32), 64, {}, {}).micro_batch, 32);
  EXPECT_REFUSED(refusal(step, 24, 64), kOptionConflict, "/batch_size", "micro_batch 24",
                 "'second'", "groups of 16", "two_pass: on");
  MemoryPolicy twice = policy(24);
  twice.two_pass = true;
  EXPECT_TRUE(make_step_plan(step, twice, 64, {}, {}).two_pass);
}

TEST(StepPlan, CoupledLossPreventsSplitting) {
  EXPECT_REFUSED(refusal(SomeStep(Coupling::kWholeBatch), 8, 64), kOptionConflict, "/batch_size",
                 "micro_batch 8", "'second'", "two_pass: on");
}

runner::Diagnostics refused_single(const SomeStep& step, std::optional<std::int64_t> micro_batch,
                                   std::int64_t units) {
  return refusals_of(
      [&] { make_step_plan(step, policy(micro_batch), units, {}, {}, /*declares_cut=*/true); });
}

runner::Diagnostics refused_over_ranks(const SomeStep& step, const MemoryPolicy& policy,
                                       std::int64_t units, bool declares_cut = false) {
  return refusals_of([&] { make_step_plan(step, policy, units, {}, {}, declares_cut, 3); });
}

TEST(StepPlan, RanksNeedLayersThatMixSamplesAcrossRanks) {
  SomeStep mixes(Coupling::kPerSample, true);
  EXPECT_REFUSED(refused_over_ranks(mixes, policy({}), 12), kOptionConflict, "/device/count",
                 "device.count: 3", "BatchNorm");
  mixes.over_ranks = true;
  EXPECT_THAT(refused_over_ranks(mixes, policy({}), 12), testing::IsEmpty());
  EXPECT_THAT(refused_over_ranks(mixes, policy(4), 12), testing::IsEmpty()) << "a whole share";
  EXPECT_THAT(refused_over_ranks(mixes, policy({}), 2), testing::IsEmpty()) << "one sample in each";
  EXPECT_REFUSED(refused_over_ranks(mixes, policy({}), 1), kOptionConflict, "/batch_size",
                 "BatchNorm");
  EXPECT_REFUSED(refused_over_ranks(mixes, policy(2), 12), kOptionConflict, "/batch_size",
                 "micro_batch 2", "BatchNorm");
  EXPECT_REFUSED(refused_over_ranks(mixes, policy(6), 12, /*declares_cut=*/true), kOptionConflict,
                 "/device/count", "gradient_accumulation_steps", "BatchNorm");
  MemoryPolicy in_backward;
  in_backward.optimizer_in_backward = true;
  EXPECT_REFUSED(refused_over_ranks(mixes, in_backward, 12), kOptionConflict, "/device/count",
                 "optimizer_in_backward");
  EXPECT_THAT(refused_over_ranks(SomeStep(Coupling::kPerGroup, true), policy({}), 12),
              testing::IsEmpty());
}

TEST(StepPlan, LayersThatMixSamplesNeedMoreThanOneSample) {
  const SomeStep mixes(Coupling::kPerSample, true);
  EXPECT_REFUSED(refused_single(mixes, {}, 1), kOptionConflict, "/batch_size", "BatchNorm");
  EXPECT_REFUSED(refused_single(mixes, 1, 8), kOptionConflict, "/batch_size", "BatchNorm");
  EXPECT_THAT(refused_single(mixes, 2, 8), testing::IsEmpty());
  EXPECT_THAT(refused_single(SomeStep(Coupling::kPerGroup, true), 1, 8), testing::IsEmpty());
  EXPECT_THAT(refused_single(SomeStep(Coupling::kPerSample), 1, 8), testing::IsEmpty());
}

TEST(StepPlan, LayersThatMixSamplesPreventSplitting) {
  EXPECT_REFUSED(refusal(SomeStep(Coupling::kPerSample, true), 8, 64), kOptionConflict,
                 "/batch_size", "micro_batch 8", "BatchNorm", "activation_checkpointing: block");
}

TEST(StepPlan, TwoPassesSplitACoupledLossButNotLayersThatMixSamples) {
  MemoryPolicy twice = policy(8);
  twice.two_pass = true;
  const StepPlan plan = make_step_plan(SomeStep(Coupling::kWholeBatch), twice, 64, {}, {});
  EXPECT_EQ(plan.micro_batch, 8);
  EXPECT_TRUE(plan.two_pass);
  EXPECT_EQ(parts(plan, 64), 1);  // measured as a whole
  EXPECT_FALSE(make_step_plan(SomeStep(Coupling::kWholeBatch), twice, 8, {}, {}).two_pass);
  EXPECT_THROW(make_step_plan(SomeStep(Coupling::kPerSample, true), twice, 64, {}, {}),
               runner::StageError);
}

TEST(StepPlan, TwoPassesWithLayersThatMixSamplesAreRejected) {
  MemoryPolicy twice = policy({});
  twice.two_pass = true;
  twice.pointer = "/memory";
  EXPECT_REFUSED(make_step_plan(SomeStep(Coupling::kWholeBatch, true), twice, 64, {}, {}),
                 kOptionConflict, "/memory/two_pass", "BatchNorm",
                 "activation_checkpointing: block");
}

TEST(StepPlan, GroupsAreSplitEvenIfLayersMixTheirSamples) {
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kPerGroup, true), policy(24), 64, {}, {}).micro_batch,
            24);
}

TEST(StepPlan, LayersThatMixSamplesAllowSplittingOnRequest) {
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kPerSample, true), policy(24), 64, {}, {}, true)
                .micro_batch,
            24);
  EXPECT_THROW(make_step_plan(SomeStep(Coupling::kWholeBatch, true), policy(24), 64, {}, {}, true),
               runner::StageError);
}

TEST(StepPlan, MicroBatchOfTheWholeBatchIsAllowed) {
  EXPECT_THAT(refusal(SomeStep(Coupling::kWholeBatch, true), 64, 64), testing::IsEmpty());
  EXPECT_THAT(refusal(SomeStep(Coupling::kWholeBatch, true), 100, 64), testing::IsEmpty());
}

TEST(StepPlan, NumericOptionsArePassedOn) {
  const Numerics numerics{.precision = Precision::kBf16, .layout = Layout::kChannelsLast};
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kPerSample), policy(24), 64, numerics, {}).numerics,
            numerics);
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kPerSample), policy({}), 64, numerics, {}).numerics,
            numerics);
}

TEST(StepPlan, ActivationCheckpointingIsPassedOn) {
  const ActivationCheckpointing blocks{.blocks = true};
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kPerSample), policy(24), 64, {}, blocks)
                .activation_checkpointing,
            blocks);
  EXPECT_EQ(make_step_plan(SomeStep(Coupling::kWholeBatch, true), policy({}), 64, {}, blocks)
                .activation_checkpointing,
            blocks);  // the micro-batch is the whole batch
}

TEST(StepPlan, RecordIsComplete) {
  const StepPlan plan{.micro_batch = 24,
                      .two_pass = true,
                      .numerics = {.precision = {Precision::kBf16, {{"head", Precision::kFp32}}},
                                   .layout = Layout::kChannelsLast,
                                   .layout_rule = "layout-1"},
                      .activation_checkpointing = {.modules = {"encoder.layers.*"}}};
  EXPECT_EQ(
      to_json(plan).dump(),
      R"({"micro_batch":24,"two_pass":true,"activation_checkpointing":["encoder.layers.*"],)"
      R"("precision":{"default":"bf16","modules":{"head":"fp32"}},"tf32":false,"layout":"channels_last","layout_rule":"layout-1"})");
}

}  // namespace
}  // namespace stages
