#include <gtest/gtest.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

TEST(MemoryNovel, UnknownOptionIsRejected) {
  const runner::Value value = stage_options("memory/novel", R"({"micro_bach": 3})");
  runner::ConfigReader reader(value, "/memory");
  const auto stage = kMemoryNovel.create(reader);
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors()[0].pointer, "/memory/micro_bach");
}

TEST(MemoryNovel, PolicyHasTheConfiguredMicroBatch) {
  const runner::Value value = stage_options("memory/novel", R"({"micro_batch": 3})");
  runner::ConfigReader reader(value, "/memory");
  const auto stage = kMemoryNovel.create(reader);
  ASSERT_TRUE(stage);
  RecordingContext context;
  const runner::Outputs outputs = (*stage)->run(runner::Inputs({}), context);
  EXPECT_EQ(
      runner::Inputs({{"memory", {outputs.at("memory")}}}).get<MemoryPolicy>("memory")->micro_batch,
      3);
}

}  // namespace
}  // namespace stages
