#include <gtest/gtest.h>

#include "runner/config_reader.h"
#include "runner/stage.h"
#include "stages/artifacts.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

std::shared_ptr<const MemoryPolicy> policy_of(const std::string& json) {
  const runner::Value value = stage_options("memory/policy", json);
  runner::ConfigReader reader(value, "/memory");
  auto stage = kMemoryPolicy.create(reader);
  EXPECT_TRUE(stage);
  if (!stage) return std::make_shared<MemoryPolicy>();
  RecordingContext context;
  const runner::Outputs outputs = (*stage)->run(runner::Inputs({}), context);
  return runner::Inputs({{"memory", {outputs.at("memory")}}}).get<MemoryPolicy>("memory");
}

TEST(MemoryPolicy, AutoLeavesTheMicroBatchOpen) { EXPECT_EQ(policy_of("{}")->micro_batch, std::nullopt); }

TEST(MemoryPolicy, MicroBatchIsHandedOn) { EXPECT_EQ(policy_of(R"({"micro_batch": 24})")->micro_batch, 24); }

TEST(MemoryPolicy, PrecisionIsHandedOn) {
  EXPECT_EQ(policy_of("{}")->precision, Precision::kFp32);
  EXPECT_EQ(policy_of(R"({"precision": "bf16"})")->precision, Precision::kBf16);
  EXPECT_EQ(policy_of(R"({"precision": "fp16"})")->precision, Precision::kFp16);
}

TEST(MemoryPolicy, PrecisionByModuleIsHandedOn) {
  EXPECT_EQ(
      policy_of(R"({"precision": {"default": "bf16", "model.head": "fp32", "model.blocks.*.mlp": "fp16"}})")->precision,
      PrecisionMap(Precision::kBf16, {{"model.head", Precision::kFp32}, {"model.blocks.*.mlp", Precision::kFp16}}));
}

TEST(MemoryPolicy, KnowsWhereItStands) { EXPECT_EQ(policy_of("{}")->pointer, "/memory"); }

TEST(MemoryPolicy, Tf32AndLayoutAreHandedOn) {
  EXPECT_FALSE(policy_of("{}")->tf32);
  EXPECT_EQ(policy_of("{}")->layout, std::nullopt);
  const auto policy = policy_of(R"({"tf32": true, "layout": "channels_last"})");
  EXPECT_TRUE(policy->tf32);
  EXPECT_EQ(policy->layout, Layout::kChannelsLast);
  EXPECT_EQ(policy_of(R"({"layout": "contiguous"})")->layout, Layout::kContiguous);
}

TEST(MemoryPolicy, ActivationCheckpointingIsHandedOn) {
  EXPECT_EQ(policy_of("{}")->activation_checkpointing, ActivationCheckpointing{});
  EXPECT_EQ(policy_of(R"({"activation_checkpointing": "none"})")->activation_checkpointing, ActivationCheckpointing{});
  EXPECT_EQ(policy_of(R"({"activation_checkpointing": "block"})")->activation_checkpointing,
            ActivationCheckpointing{.blocks = true});
  EXPECT_EQ(policy_of(R"({"activation_checkpointing": ["model.blocks.*", "model.head"]})")->activation_checkpointing,
            (ActivationCheckpointing{.modules = {"model.blocks.*", "model.head"}}));
}

TEST(MemoryPolicy, TwoPassIsAWordOrYamlsBoolean) {
  for (const char* off : {"{}", R"({"two_pass": "off"})", R"({"two_pass": false})"})
    EXPECT_FALSE(policy_of(off)->two_pass) << off;
  for (const char* on : {R"({"two_pass": "on"})", R"({"two_pass": true})"}) EXPECT_TRUE(policy_of(on)->two_pass) << on;
}

TEST(MemoryPolicy, OptionOfALaterFormIsNotIgnored) {
  const runner::Value value = stage_options("memory/policy", R"({"max_retries": 2})");
  runner::ConfigReader reader(value, "/memory");
  const auto stage = kMemoryPolicy.create(reader);
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors()[0].pointer, "/memory/max_retries");
}

}  // namespace
}  // namespace stages
