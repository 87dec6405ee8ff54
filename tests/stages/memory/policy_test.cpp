#include <gmock/gmock.h>

#include "runner/shared/stage/stage.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

std::shared_ptr<const MemoryPolicy> policy_of(const std::string& json) {
  const auto stage = stage_of(kMemoryPolicy, json);
  RecordingContext context;
  const runner::Outputs outputs = stage->run(runner::Inputs({}), context);
  return runner::Inputs({{"memory", {outputs.at("memory")}}}).get<MemoryPolicy>("memory");
}

TEST(MemoryPolicy, AutoLeavesTheMicroBatchOpen) {
  EXPECT_EQ(policy_of("{}")->micro_batch, std::nullopt);
}

TEST(MemoryPolicy, MicroBatchIsPassedOn) {
  EXPECT_EQ(policy_of(R"({"micro_batch": 24})")->micro_batch, 24);
}

TEST(MemoryPolicy, PrecisionIsPassedOn) {
  EXPECT_EQ(policy_of("{}")->precision, Precision::kFp32);
  EXPECT_EQ(policy_of(R"({"precision": "bf16"})")->precision, Precision::kBf16);
  EXPECT_EQ(policy_of(R"({"precision": "fp16"})")->precision, Precision::kFp16);
}

TEST(MemoryPolicy, PrecisionByModuleIsPassedOn) {
  EXPECT_EQ(
      policy_of(
          R"({"precision": {"default": "bf16", "model.head": "fp32", "model.blocks.*.mlp": "fp16"}})")
          ->precision,
      PrecisionMap(Precision::kBf16,
                   {{"model.head", Precision::kFp32}, {"model.blocks.*.mlp", Precision::kFp16}}));
}

TEST(MemoryPolicy, KnowsItsPointerInTheRecipe) { EXPECT_EQ(policy_of("{}")->pointer, "/memory"); }

TEST(MemoryPolicy, Tf32AndLayoutArePassedOn) {
  EXPECT_FALSE(policy_of("{}")->tf32);
  EXPECT_EQ(policy_of("{}")->layout, std::nullopt);
  const auto policy = policy_of(R"({"tf32": true, "layout": "channels_last"})");
  EXPECT_TRUE(policy->tf32);
  EXPECT_EQ(policy->layout, Layout::kChannelsLast);
  EXPECT_EQ(policy_of(R"({"layout": "contiguous"})")->layout, Layout::kContiguous);
}

TEST(MemoryPolicy, ActivationCheckpointingIsPassedOn) {
  EXPECT_EQ(policy_of("{}")->activation_checkpointing, ActivationCheckpointing{});
  EXPECT_EQ(policy_of(R"({"activation_checkpointing": "none"})")->activation_checkpointing,
            ActivationCheckpointing{});
  EXPECT_EQ(policy_of(R"({"activation_checkpointing": "block"})")->activation_checkpointing,
            ActivationCheckpointing{.blocks = true});
  EXPECT_EQ(policy_of(R"({"activation_checkpointing": ["model.blocks.*", "model.head"]})")
                ->activation_checkpointing,
            (ActivationCheckpointing{.modules = {"model.blocks.*", "model.head"}}));
}

TEST(MemoryPolicy, TwoPassIsAWordOrABoolean) {
  for (const char* off : {"{}", R"({"two_pass": "off"})", R"({"two_pass": false})"})
    EXPECT_FALSE(policy_of(off)->two_pass) << off;
  for (const char* on : {R"({"two_pass": "on"})", R"({"two_pass": true})"})
    EXPECT_TRUE(policy_of(on)->two_pass) << on;
}

TEST(MemoryPolicy, BudgetIsInBytes) {
  EXPECT_EQ(policy_of("{}")->budget, std::nullopt);
  EXPECT_EQ(policy_of(R"({"budget": "8GiB"})")->budget, std::int64_t{8} << 30);
  EXPECT_EQ(policy_of(R"({"budget": "1.5MiB"})")->budget, 3 << 19);
  EXPECT_EQ(policy_of("{}")->memory_fraction, 1);
  EXPECT_EQ(policy_of(R"({"memory_fraction": 0.95})")->memory_fraction, 0.95);
}

TEST(MemoryPolicy, BudgetMayBeAShareOfTheDevice) {
  const auto policy = policy_of(R"({"budget": "80%"})");
  EXPECT_EQ(policy->budget_share, 0.8);
  EXPECT_EQ(policy->budget, std::nullopt);
  EXPECT_EQ(policy_of(R"({"budget": "12.5%"})")->budget_share, 0.125);
  EXPECT_EQ(policy_of("{}")->budget_share, std::nullopt);
}

TEST(MemoryPolicy, AutoValuesLeaveAChoiceIfTheyMayBeChosen) {
  EXPECT_FALSE(policy_of("{}")->leaves_a_choice());
  EXPECT_FALSE(policy_of(R"({"allow": "bit"})")->leaves_a_choice())
      << "micro-batches do not keep every bit";
  EXPECT_TRUE(
      policy_of(R"({"allow": "bit", "activation_checkpointing": "auto"})")->leaves_a_choice());
  EXPECT_TRUE(policy_of(R"({"allow": "exact"})")->leaves_a_choice());
  EXPECT_FALSE(policy_of(R"({"allow": "exact", "micro_batch": 4})")->leaves_a_choice());
  EXPECT_TRUE(
      policy_of(R"({"allow": "exact", "micro_batch": 4, "two_pass": "auto"})")->leaves_a_choice());
  EXPECT_EQ(policy_of(R"({"min_micro_batch": 4})")->min_micro_batch, 4);
}

TEST(MemoryPolicy, RecomputedBatchNormUpdatesOnceOrTwice) {
  EXPECT_FALSE(policy_of("{}")->activation_checkpointing.updates_twice);
  EXPECT_TRUE(
      policy_of(R"({"recompute_batch_norm": "twice"})")->activation_checkpointing.updates_twice);
}

TEST(MemoryPolicy, EmptyCacheIntervalHasSeveralUnits) {
  EXPECT_EQ(policy_of("{}")->empty_cache_every, EmptyCacheEvery());
  EXPECT_EQ(policy_of(R"({"empty_cache_every": 50})")->empty_cache_every,
            EmptyCacheEvery{.micro_batches = 50});
  EXPECT_EQ(policy_of(R"({"empty_cache_every": {"micro_batches": 50, "steps": 10, "epochs": 3}})")
                ->empty_cache_every,
            (EmptyCacheEvery{50, 10, 3}));
  EXPECT_EQ(policy_of(R"({"empty_cache_every": {"epochs": 3}})")->empty_cache_every,
            EmptyCacheEvery{.epochs = 3});
}

TEST(MemoryPolicy, AllocatorSettingsArePassedOn) {
  EXPECT_EQ(policy_of("{}")->allocator, AllocatorSettings());
  EXPECT_EQ(
      policy_of(R"({"allocator": {"expandable_segments": true, "garbage_collection_threshold": 0.8,
                          "roundup_power2_divisions": 4}})")
          ->allocator,
      (AllocatorSettings{.expandable_segments = true,
                         .max_split_size_mb = {},
                         .garbage_collection_threshold = 0.8,
                         .roundup_power2_divisions = 4}));
  EXPECT_EQ(policy_of(R"({"allocator": {"expandable_segments": false, "max_split_size_mb": 128}})")
                ->allocator,
            (AllocatorSettings{.expandable_segments = false,
                               .max_split_size_mb = 128,
                               .garbage_collection_threshold = {},
                               .roundup_power2_divisions = {}}));
}

TEST(MemoryPolicy, OptionsWithoutEffectOnACpuAreReported) {
  auto stage = created(kMemoryPolicy,
                       R"({"allocator": {"expandable_segments": true}, "empty_cache_every": 10})");
  ASSERT_TRUE(stage);
  RecordingContext context;
  (*stage)->run(runner::Inputs({}), context);
  EXPECT_THAT(context.details,
              testing::ElementsAre("allocator: expandable_segments:True has no effect on the CPU: "
                                   "it configures the GPU allocator"));
}

TEST(MemoryPolicy, ZeroBudgetIsRejected) {
  EXPECT_REFUSED(created(kMemoryPolicy, R"({"budget": "0GiB"})"), kOutOfRange, "/memory/budget",
                 "0 bytes");
}

TEST(MemoryPolicy, BudgetShareMustBeWithinTheDevice) {
  for (const char* share : {"0%", "101%"})
    EXPECT_REFUSED(created(kMemoryPolicy, R"({"budget": ")" + std::string(share) + "\"}"),
                   kOutOfRange, "/memory/budget", share);
}

TEST(MemoryPolicy, InvalidSizeIsNotTreatedAsAuto) {
  EXPECT_REFUSED(created(kMemoryPolicy, R"({"budget": "plenty"})"), kInternal, "/memory/budget",
                 "'plenty'");
}

TEST(MemoryPolicy, OptionOfALaterVersionIsNotIgnored) {
  EXPECT_REFUSED(created(kMemoryPolicy, R"({"of_a_later_form": 2})"), kUnreadOption,
                 "/memory/of_a_later_form");
}

TEST(MemoryPolicy, RecoveryIsPassedOn) {
  const RecoveryOptions standard = policy_of("{}")->recovery;
  EXPECT_EQ(standard.max_retries, 0);
  EXPECT_THAT(standard.on_oom, testing::ElementsAre(OnOom::kReplan, OnOom::kStop));
  EXPECT_FALSE(standard.halves_batch);
  EXPECT_FALSE(standard.allows_retry(0));
  EXPECT_EQ(policy_of("{}")->min_micro_batch, 1);
  EXPECT_EQ(policy_of("{}")->allow, Allow::kNothing);

  const auto robust = policy_of(
      R"({"max_retries": "auto", "on_oom": ["replan", "gpu", "cpu", "stop"], "min_micro_batch": 4, "allow": "exact"})");
  EXPECT_EQ(robust->recovery.max_retries, std::nullopt);
  EXPECT_THAT(robust->recovery.on_oom,
              testing::ElementsAre(OnOom::kReplan, OnOom::kGpu, OnOom::kCpu, OnOom::kStop));
  EXPECT_TRUE(robust->recovery.allows_retry(1000));
  EXPECT_EQ(robust->min_micro_batch, 4);
  EXPECT_EQ(robust->allow, Allow::kExact);

  EXPECT_TRUE(policy_of(R"({"on_oom_policy": "legacy", "max_retries": 3})")->recovery.halves_batch);
}

TEST(MemoryPolicy, RetriesAreLimitedAndNeedReplan) {
  const RecoveryOptions two = policy_of(R"({"max_retries": 2})")->recovery;
  EXPECT_TRUE(two.allows_retry(1));
  EXPECT_FALSE(two.allows_retry(2));
  EXPECT_FALSE(
      policy_of(R"({"max_retries": "auto", "on_oom": ["cpu", "stop"]})")->recovery.allows_retry(0));
}

TEST(MemoryPolicy, ImpossibleRecoveryIsRejected) {
  EXPECT_REFUSED(created(kMemoryPolicy, R"({"on_oom": ["stop", "cpu"]})"), kOptionConflict,
                 "/memory/on_oom", "'cpu'", "'stop'");
  EXPECT_REFUSED(created(kMemoryPolicy, R"({"on_oom": ["gpu", "replan"]})"), kOptionConflict,
                 "/memory/on_oom", "'replan'");
  EXPECT_REFUSED(created(kMemoryPolicy, R"({"on_oom_policy": "legacy", "max_retries": "auto"})"),
                 kOptionConflict, "/memory/max_retries", "max_retries: 3");
}

TEST(MemoryPolicy, OptimizerOptionsArePassedOn) {
  const auto policy = policy_of("{}");
  EXPECT_FALSE(policy->offloads_optimizer || policy->offload_is_open);
  EXPECT_FALSE(policy->optimizer_in_backward || policy->in_backward_is_open);
  EXPECT_TRUE(policy_of(R"({"offload": "optimizer"})")->offloads_optimizer);
  EXPECT_FALSE(policy_of(R"({"offload": "none"})")->offloads_optimizer);
  EXPECT_TRUE(policy_of(R"({"optimizer_in_backward": true})")->optimizer_in_backward);
  EXPECT_FALSE(policy->cuda_graphs);
  EXPECT_TRUE(policy_of(R"({"cuda_graphs": true})")->cuda_graphs);
  for (const char* open : {R"({"allow": "bit", "offload": "auto"})",
                           R"({"allow": "bit", "optimizer_in_backward": "auto"})"})
    EXPECT_TRUE(policy_of(open)->leaves_a_choice()) << open;
}

}  // namespace
}  // namespace stages
