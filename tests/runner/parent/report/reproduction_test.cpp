#include "runner/parent/report/reproduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two identical runs, until a test changes one of them.
class ReproductionTest : public testing::Test {
 protected:
  ReproductionTest() {
    for (const std::string run : {"before", "now"}) {
      write_metrics(run, {metric("train", "train/loss", "0.5", 1),
                          metric("train", "memory/peak", run == "now" ? "1" : "2", 1),
                          metric("train", "train/loss", "0.25", 2),
                          metric("evaluate", "evaluate/top1", "0.75", 2)});
      const std::string train = run + "/nodes/train/";
      folder_.write(train + "checkpoints/best", "step-00000002\n");
      folder_.write(train + "checkpoints/step-00000002/model.safetensors", "weights");
      folder_.write(train + "checkpoints/step-00000002/state.json", run);
      folder_.write(train + "training_metrics.json", run);
      folder_.write(train + "plan.json",
                    R"({"step": {"micro_batch": 8}, "budget": ")" + run + "\"}");
      folder_.write(train + "finished.json", run);
      folder_.write(run + "/nodes/evaluate/predictions.csv", "a,b\n");
    }
  }
  static std::string metric(const std::string& node, const std::string& name,
                            const std::string& value, int step) {
    return R"({"node":")" + node + R"(","name":")" + name + R"(","value":)" + value +
           R"(,"step":)" + std::to_string(step) + R"(,"time":1.5})";
  }
  void write_metrics(const std::string& run, const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    folder_.write(run + "/metrics.jsonl", text);
  }
  Reproduction compare(double tolerance = 1e-3) const {
    return compare_reproduction(folder_ / "before", folder_ / "now", tolerance);
  }
  TemporaryFolder folder_;
};

TEST_F(ReproductionTest, PlansTimesAndMemoryAreNotCompared) {
  const Reproduction found = compare();
  EXPECT_EQ(found.verdict, Verdict::kIdentical);
  EXPECT_EQ(found.metrics, 3u);
  EXPECT_EQ(found.files, 2u);
  EXPECT_EQ(reproduction_text(found),
            "identical: 3 metrics and 2 files of weights and results match bit for bit\n");
}

TEST_F(ReproductionTest, FirstAndLargestDifferenceAreReported) {
  write_metrics("now", {metric("train", "train/loss", "0.5000001", 1),
                        metric("train", "train/loss", "0.2501", 2),
                        metric("evaluate", "evaluate/top1", "0.75", 2)});
  const Reproduction found = compare();
  EXPECT_EQ(found.verdict, Verdict::kWithinTolerance);
  EXPECT_EQ(found.first->step, 1);
  EXPECT_EQ(found.largest->step, 2);
  EXPECT_NEAR(found.largest->relative, 1e-4 / 0.2501, 1e-12);
  EXPECT_THAT(
      reproduction_text(found),
      HasSubstr("first difference: train, step 1: train/loss was 0.5 and is now 0.5000001\n"
                "largest difference: train, step 2: train/loss was 0.25 and is now 0.2501\n"));
  EXPECT_EQ(compare(1e-6).verdict, Verdict::kDifferent);
  EXPECT_EQ(compare(0).verdict, Verdict::kDifferent);
}

TEST_F(ReproductionTest, DifferentWeightsWithEqualMetricsAreNotIdentical) {
  folder_.write("now/nodes/train/checkpoints/step-00000002/model.safetensors", "weighTs");
  const Reproduction found = compare(0);
  EXPECT_EQ(found.verdict, Verdict::kWithinTolerance);
  EXPECT_THAT(found.other_files, ElementsAre("train/checkpoints/best/model.safetensors"));
  EXPECT_FALSE(found.first);
  EXPECT_THAT(reproduction_text(found),
              HasSubstr("first difference: none in the metrics\nfiles that differ: "
                        "train/checkpoints/best/model.safetensors\n"));
}

TEST_F(ReproductionTest, ShorterRunIsDifferent) {
  write_metrics("now", {metric("train", "train/loss", "0.5", 1),
                        metric("evaluate", "evaluate/top1", "0.75", 2)});
  const Reproduction found = compare(1e9);
  EXPECT_EQ(found.verdict, Verdict::kDifferent);
  EXPECT_THAT(
      reproduction_text(found),
      HasSubstr("first difference: train, step 2: train/loss was 0.25 and is now not measured\n"));
  EXPECT_EQ(to_json(found)["first"]["now"], nullptr);
  EXPECT_EQ(to_json(found)["largest"]["relative"], "inf");
}

TEST_F(ReproductionTest, NanEqualsOnlyNan) {
  const auto with = [&](const std::string& value) {
    return std::vector<std::string>{metric("train", "train/loss", value, 1)};
  };
  write_metrics("before", with("\"nan\""));
  write_metrics("now", with("\"nan\""));
  EXPECT_EQ(compare().verdict, Verdict::kIdentical);
  write_metrics("now", with("\"inf\""));
  EXPECT_EQ(compare(1e9).verdict, Verdict::kDifferent);
}

TEST_F(ReproductionTest, FilesAreComparedEvenWithoutMetrics) {
  for (const char* run : {"before", "now"}) write_metrics(run, {});
  EXPECT_EQ(compare().verdict, Verdict::kIdentical);
  folder_.write("now/nodes/evaluate/predictions.csv", "a,c\n");
  EXPECT_EQ(compare().verdict, Verdict::kDifferent);
}

TEST_F(ReproductionTest, DifferentPlanIsReported) {
  folder_.write("now/nodes/train/plan.json", R"({"step": {"micro_batch": 4}})");
  EXPECT_EQ(compare().verdict, Verdict::kIdentical);
  EXPECT_THAT(compare().other_plans, ElementsAre("train"));
}

}  // namespace
}  // namespace runner
