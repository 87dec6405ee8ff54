// Whole trainings: minutes, not milliseconds. What they assert is what was learnt, never how long
// it took.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/chance.h"
#include "tests/support/program.h"
#include "tests/support/shared_data.h"

namespace {

nlohmann::json test_metrics(const std::filesystem::path& run) {
  return nlohmann::json::parse(file_text(run / "nodes/evaluate/metrics.json"));
}

TEST(Learning, QuickstartTellsShapesApart) {
  const TemporaryFolder folder;
  const Ended ended = retort("run quickstart run.dir=run", folder.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, testing::HasSubstr("chance 12.5 %"));
  EXPECT_THAT(ended.out, testing::HasSubstr("run"));
  EXPECT_GT(test_metrics(folder / "run")["top1"].get<double>(), 0.8);
}

TEST(DeepLearning, QuickstartIsLearntInEveryPrecision) {
  const TemporaryFolder folder;
  const auto top1 = [&](const std::string& name, const std::string& precision) {
    const Ended ended = retort(
        "run quickstart run.dir=" + name + " 'memory.precision=" + precision + "'", folder.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    return ended.exit == 0 ? test_metrics(folder / name)["top1"].get<double>() : -1;
  };
  const double full = top1("fp32", "fp32");
  EXPECT_GT(full, 0.8);
  // Two networks as good as each other differ by chance on so many images.
  const auto images = test_metrics(folder / "fp32")["samples"].get<double>();
  const double by_chance = std::sqrt(2) * count_error(images, full) / images;
  EXPECT_NEAR(top1("bf16", "bf16"), full, by_chance);
  EXPECT_NEAR(top1("fp16", "fp16"), full, by_chance);
  EXPECT_NEAR(
      top1("mixed", "{default:bf16,model.head:fp32,model.vision_model.encoder.layers.*.mlp:fp16}"),
      full, by_chance);
}

TEST(DeepLearning, ClassifyLearnsTwelveFlowersFromScratch) {
  const auto images = shared_data("data/flowers12/images");
  RETORT_NEEDS_SHARED(images);
  const TemporaryFolder folder;
  const Ended ended =
      retort("run classify data.root=" + images.string() + " run.dir=run", folder.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_GT(test_metrics(folder / "run")["top1_interval"]["low"].get<double>(), 0.65);
}

}  // namespace
