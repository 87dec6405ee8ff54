#include "runner/parent/registry/run_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string summary_of(const std::string& metrics) {
  return R"({"status": "finished", "metrics": )" + metrics + "}";
}

TEST(RunEntry, HoldsFactsSettingsAndMetrics) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  folder.write("run/tags.json", R"({"schema": 1, "tags": ["b", "a"]})");
  const RunEntry entry = read_entry(folder / "run");
  EXPECT_EQ(entry.recipe, "probe");
  EXPECT_EQ(entry.status, "finished");
  EXPECT_EQ(entry.started, "2026-01-31T12:00:00+0000");
  EXPECT_EQ(entry.seconds, 9);
  EXPECT_EQ(entry.device, "cpu");
  EXPECT_THAT(entry.tags, ElementsAre("a", "b"));
  EXPECT_EQ(entry.problem, "");
  EXPECT_THAT(entry.settings, ElementsAre(Pair("name", RunValue("probe")),
                                          Pair("model.kind", RunValue("model.lora")),
                                          Pair("train.kind", RunValue("train.supervised")),
                                          Pair("train.epochs", RunValue(2.0))));
  EXPECT_THAT(entry.metrics, ElementsAre(Pair("evaluate/top1", 0.5)));
  EXPECT_EQ(entry.headline, "evaluate/top1");
}

TEST(RunEntry, HoldsTheMonitoredMetricIfItWasMeasured) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  folder.write("run/summary.json",
               R"({"status": "finished", )" + kept_of("validation/loss", "0.5") + "}");
  EXPECT_EQ(read_entry(folder / "run").monitor, "validation/loss");
  EXPECT_EQ(read_entry(folder / "run").trained_by, "train.supervised");
  folder.write(
      "run/summary.json",
      R"({"status": "finished", "kept": {"train": {"kind": "train.supervised", "monitor": "validation/loss"}}})");
  EXPECT_EQ(read_entry(folder / "run").monitor, "");
}

TEST(RunEntry, EvaluationNamesTheRunThatItEvaluated) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  EXPECT_EQ(read_entry(folder / "run").source, "");
  folder.write("run/.retort/source.json", R"({"schema": 1, "run": "/a/run", "checkpoints": {}})");
  EXPECT_EQ(read_entry(folder / "run").source, "/a/run");
}

TEST(RunEntry, TimeOfAKilledRunEndsAtItsLastMetric) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  folder.write("run/metrics.jsonl",
               R"({"node": "train", "name": "train/loss", "value": 1, "step": 1, "time": 12.5})"
               "\n");
  EXPECT_EQ(read_entry(folder / "run").seconds, 9);
  folder.write("run/summary.json", R"({"status": "running", "seconds": 0})");
  EXPECT_EQ(read_entry(folder / "run").seconds, 12.5);
}

TEST(RunEntry, ListsAndFlagsBecomeStrings) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  folder.write("run/.retort/recipe.yaml", "a: [1, 2]\nb: true\nc: null\nd: {}\ne: '3'\n");
  EXPECT_THAT(read_entry(folder / "run").settings,
              ElementsAre(Pair("a", RunValue("[1,2]")), Pair("b", RunValue("true")),
                          Pair("c", RunValue("null")), Pair("d", RunValue("{}")),
                          Pair("e", RunValue("3"))));
}

TEST(RunEntry, MetricsOfSeveralNodesIncludeTheNodeName) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  folder.write("run/summary.json",
               summary_of(R"({"b": {"loss": {"value": 2}}, "a": {"loss": {"value": 1}}})"));
  EXPECT_THAT(read_entry(folder / "run").metrics,
              ElementsAre(Pair("a:loss", 1), Pair("b:loss", 2)));
}

TEST(RunEntry, HeadlinePrefersEvaluationOverTraining) {
  const TemporaryFolder folder;
  const auto headline = [&](const std::string& metrics) {
    write_run(folder, "run");
    folder.write("run/summary.json", summary_of(R"({"n": {)" + metrics + "}}"));
    return read_entry(folder / "run").headline;
  };
  EXPECT_EQ(
      headline(
          R"("evaluate/r": {"value": 1}, "evaluate/top1": {"value": 1}, "train/x": {"value": 1})"),
      "evaluate/top1");
  EXPECT_EQ(headline(R"("evaluate/r": {"value": 1}, "train/x": {"value": 1})"), "evaluate/r");
  EXPECT_EQ(headline(R"("memory/x": {"value": 1}, "train/x": {"value": 1})"), "train/x");
  EXPECT_EQ(headline(""), "");
}

TEST(RunEntry, DamagedSummaryKeepsTheOtherFacts) {
  const TemporaryFolder folder;
  for (const std::string text : {"", "{", "3", "[]", R"({"status": 3})"}) {
    write_run(folder, "run");
    folder.write("run/summary.json", text);
    const RunEntry entry = read_entry(folder / "run");
    EXPECT_EQ(entry.status, "damaged") << text;
    EXPECT_EQ(entry.problem, "'summary.json' cannot be read") << text;
    EXPECT_THAT(entry.settings, Contains(Pair("model.kind", RunValue("model.lora")))) << text;
  }
}

TEST(RunEntry, MalformedMetricsAreLeftOut) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  folder.write(
      "run/summary.json",
      summary_of(
          R"({"a": 3, "b": {"x": 1, "y": {"value": "z"}, "w": {"value": 4}, "v": {"value": "inf"}}})"));
  EXPECT_THAT(read_entry(folder / "run").metrics, ElementsAre(Pair("v", HUGE_VAL), Pair("w", 4)));
}

TEST(RunEntry, DamagedRecipeAndTagsKeepTheOtherFacts) {
  const TemporaryFolder folder;
  write_run(folder, "run");
  folder.write("run/.retort/recipe.yaml", "a: [");
  EXPECT_EQ(read_entry(folder / "run").problem, "'.retort/recipe.yaml' cannot be read");
  EXPECT_EQ(read_entry(folder / "run").status, "damaged");
  write_run(folder, "run");
  folder.write("run/tags.json", "[");
  EXPECT_EQ(read_entry(folder / "run").problem, "'tags.json' cannot be read");
  EXPECT_THAT(read_entry(folder / "run").metrics, ElementsAre(Pair("evaluate/top1", 0.5)));
}

TEST(RunEntry, RunKilledBeforeItBeganIsIncomplete) {
  const TemporaryFolder folder;
  folder.write("run/.retort/run.json", R"({"schema": 1})");
  const RunEntry entry = read_entry(folder / "run");
  EXPECT_EQ(entry.status, "incomplete");
  EXPECT_THAT(entry.problem, testing::HasSubstr("was killed before it started"));
  EXPECT_THAT(entry.settings, IsEmpty());
}

TEST(RunEntry, NumbersAreShownInTheirShortestForm) {
  EXPECT_EQ(run_value_text(0.1), "0.1");
  EXPECT_EQ(run_value_text(64.0), "64");
  EXPECT_EQ(run_value_text(1e-5), "1e-05");
  EXPECT_EQ(run_value_text("x"), "x");
}

TEST(RunEntry, TablesShowSixDigitsAndWholeNumbers) {
  EXPECT_EQ(shown_number(29954048), "29954048");
  EXPECT_EQ(shown_number(-3), "-3");
  EXPECT_EQ(shown_number(0.97512345), "0.975123");
  EXPECT_EQ(shown_number(4e-9), "4e-09");
  EXPECT_EQ(shown_number(1e300), "1e+300");
  EXPECT_EQ(shown_number(std::nan("")), "nan");
  EXPECT_EQ(shown_number(HUGE_VAL), "inf");
}

}  // namespace
}  // namespace runner
