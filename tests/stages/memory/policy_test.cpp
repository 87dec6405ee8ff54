#include <gtest/gtest.h>

#include "runner/config_reader.h"
#include "runner/stage.h"
#include "stages/artifacts.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

std::optional<std::int64_t> micro_batch_of(const std::string& json) {
  const runner::Value value = stage_options("memory/policy", json);
  runner::ConfigReader reader(value, "/memory");
  auto stage = kMemoryPolicy.create(reader);
  EXPECT_TRUE(stage);
  if (!stage) return -1;
  RecordingContext context;
  const runner::Outputs outputs = (*stage)->run(runner::Inputs({}), context);
  return runner::Inputs({{"memory", {outputs.at("memory")}}}).get<MemoryPolicy>("memory")->micro_batch;
}

TEST(MemoryPolicy, AutoLeavesTheMicroBatchOpen) { EXPECT_EQ(micro_batch_of("{}"), std::nullopt); }

TEST(MemoryPolicy, MicroBatchIsHandedOn) { EXPECT_EQ(micro_batch_of(R"({"micro_batch": 24})"), 24); }

TEST(MemoryPolicy, OptionOfALaterFormIsNotIgnored) {
  const runner::Value value = stage_options("memory/policy", R"({"two_pass": true})");
  runner::ConfigReader reader(value, "/memory");
  const auto stage = kMemoryPolicy.create(reader);
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors()[0].pointer, "/memory/two_pass");
}

}  // namespace
}  // namespace stages
