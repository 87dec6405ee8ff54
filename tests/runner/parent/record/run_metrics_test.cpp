#include "runner/parent/record/run_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

RunMetrics metrics_of(const std::string& summary) {
  return run_metrics(nlohmann::ordered_json::parse(summary));
}

TEST(RunMetrics, ValidationMetricsBelongToTheKeptWeights) {
  const RunMetrics metrics = metrics_of(R"({
    "metrics": {"train": {"train/loss": {"value": 1, "step": 8}, "validation/loss": {"value": 3, "step": 8}},
                "evaluate": {"evaluate/top1": {"value": 0.5, "step": 4}}},
    "kept": {"train": {"kind": "train.supervised", "monitor": "validation/loss", "step": 4,
                       "metrics": {"validation/loss": 2}}}})");
  EXPECT_THAT(metrics.values(), ElementsAre(Pair("evaluate/top1", 0.5), Pair("train/loss", 1),
                                            Pair("validation/loss", 2)));
  EXPECT_EQ(metrics.nodes.at("train").at("validation/loss").step, 4);
  EXPECT_EQ(metrics.monitor, "validation/loss");
  EXPECT_EQ(metrics.trained_by, "train.supervised");
}

TEST(RunMetrics, MetricsOfSeveralNodesIncludeTheNodeName) {
  const RunMetrics metrics = metrics_of(R"({
    "metrics": {"b": {"validation/auc": {"value": 2}}, "a": {"validation/auc": {"value": 1}, "x": {"value": "nan"}}},
    "kept": {"a": {"kind": "train.binary", "monitor": "validation/auc"},
             "b": {"kind": "train.binary", "monitor": "validation/auc"}}})");
  EXPECT_THAT(metrics.values(),
              ElementsAre(Pair("a:validation/auc", 1), Pair("b:validation/auc", 2),
                          Pair("x", testing::IsNan())));
  EXPECT_EQ(metrics.monitor, "") << "the metric is ambiguous";
}

TEST(RunMetrics, ReadableMetricsOfADamagedSummaryAreReturned) {
  for (const char* damaged :
       {"null", "[]", R"({"metrics": [1]})", R"({"metrics": {"a": 1, "b": {"c": {}}}})",
        R"({"kept": {"a": 1}})", R"({"kept": {"a": {"metrics": {"b": null}, "monitor": 1}}})"}) {
    EXPECT_THAT(metrics_of(damaged).values(), IsEmpty()) << damaged;
    EXPECT_EQ(metrics_of(damaged).monitor, "") << damaged;
  }
}

}  // namespace
}  // namespace runner
