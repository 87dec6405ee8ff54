#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/parent/page/recorded_document.h"
#include "tests/support/memory_plans.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

/// The record of a run with a training node and an evaluation, and its document.
class RunDocumentTest : public testing::Test {
 protected:
  RunDocumentTest() {
    write(".retort/run.json", R"({"schema": 1})");
    write(".retort/recipe.yaml",
          "name: probe\ntrain:\n  kind: train.supervised\n  epochs: 2\n"
          "evaluate:\n  kind: evaluate.classification\n");
    write(".retort/origins.json",
          R"({"/train/epochs": {"from": "override", "override": "train.epochs=2"},
              "/evaluate/kind": {"from": "file", "file": "a.yaml", "line": 6, "column": 9}})");
    write(".retort/environment.json",
          R"({"device": "cpu", "threads": 2, "versions": {"libtorch": "2.11.0"}})");
    write(".retort/graph.json",
          R"({"recipe": "probe", "nodes": [{"id": "train", "title": "train[x]"}]})");
    summary_ = {
        {"recipe", "probe"},
        {"status", "finished"},
        {"nodes",
         {{{"id", "train"}, {"status", "finished"}}, {{"id", "evaluate"}, {"status", "finished"}}}},
        {"diagnostics", nlohmann::ordered_json::array()}};
  }

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  void write_plan(const std::string& node, const std::string& phase = "backward") const {
    MemoryPlan plan = memory_plan();
    plan.node = node;
    plan.peak_phase = phase;
    write("nodes/" + node + "/plan.json", to_json(plan).dump());
  }
  Document document() {
    write("summary.json", summary_.dump());
    Diagnostics warnings;
    auto document = document_of_run(folder_.path(), sources_, warnings);
    EXPECT_TRUE(document && warnings.empty());
    return document ? *document : Document{};
  }
  /// The rows of the table with `heading` as its first column heading; none if there is no such
  /// table.
  std::vector<std::vector<std::string>> rows(const std::string& heading) {
    for (const Block& block : document().blocks) {
      const auto* table = std::get_if<Table>(&block);
      if (table && table->rows.front().front() == heading) return table->rows;
    }
    return {};
  }

  TemporaryFolder folder_;
  Sources sources_;
  nlohmann::ordered_json summary_;
};

TEST_F(RunDocumentTest, RecipeShowsTheOriginsOfItsValues) {
  const std::string text = markdown(document());
  EXPECT_THAT(text, testing::ContainsRegex("\n  epochs: 2 +# override 'train.epochs=2'\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  kind: evaluate.classification +# a.yaml:6\n"));
}

TEST_F(RunDocumentTest, EnvironmentIsATable) {
  EXPECT_THAT(rows("key"), Contains(ElementsAre("versions.libtorch", "2.11.0")));
}

TEST_F(RunDocumentTest, RunWithoutEventsHasNoEventTable) {
  EXPECT_THAT(markdown(document()), Not(HasSubstr("## Events")));
}

TEST_F(RunDocumentTest, RecoveryIsDescribedWithItsCauseAndStep) {
  nlohmann::ordered_json one = {{"node", "train"},      {"cause", "out of memory"},
                                {"phase", "backward"},  {"step", 3},
                                {"tried", 64 << 10},    {"taken", 2 << 20},
                                {"limit", 4 << 20},     {"from", "the whole batch of 8"},
                                {"to", "micro_batch 4"}};
  nlohmann::ordered_json same = {{"node", "evaluate"}, {"cause", "killed"}, {"phase", ""},
                                 {"step", 0},          {"tried", 0},        {"taken", 0},
                                 {"limit", 0},         {"from", "cpu"},     {"to", "cpu"}};
  summary_["recoveries"] = {one, same};
  EXPECT_THAT(
      rows("event"),
      ElementsAre(ElementsAre("event", "node", "what happened"),
                  ElementsAre("recovery", "train",
                              "out of memory in backward at step 3 (64 KiB were requested while "
                              "2.0 MiB of 4.0 MiB were in use): from the whole batch of 8 to "
                              "micro_batch 4"),
                  ElementsAre("recovery", "evaluate", "killed; continued as before: cpu")));
}

TEST_F(RunDocumentTest, ErrorsOfEarlierAttemptsAreListed) {
  const nlohmann::ordered_json error = {{"severity", "error"},
                                        {"code", "E0704"},
                                        {"message", "the worker was killed"},
                                        {"pointer", "/train"},
                                        {"help", "use a smaller batch"}};
  nlohmann::ordered_json warning = error;
  warning["severity"] = "warning";
  warning["code"] = "E0716";
  const auto list = [](const auto& one) { return nlohmann::ordered_json::array({one}); };
  summary_["earlier"] =
      list(nlohmann::ordered_json{{"status", "worker died"}, {"diagnostics", list(error)}});
  summary_["diagnostics"] = list(warning);
  folder_.write(".retort/resume-1/overrides.yaml", "[]\n");
  EXPECT_THAT(rows("event"), ElementsAre(ElementsAre("event", "node", "what happened"),
                                         ElementsAre("error E0704, attempt 1", "/train",
                                                     "the worker was killed; use a smaller batch"),
                                         ElementsAre("attempt", "", "attempt 1 ended: worker died"),
                                         ElementsAre("warning E0716", "/train",
                                                     "the worker was killed; use a smaller batch"),
                                         ElementsAre("resume", "", "resumed, attempt 2")));
}

TEST_F(RunDocumentTest, SkippedStepsAreEvents) {
  std::string lines;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const std::string end = R"(,"step":)" + std::to_string(10 * epoch) + R"(,"time":1})" + "\n";
    lines += R"({"node":"train","name":"train/epoch_skipped_steps","value":)" +
             std::string(epoch == 2 ? "0" : std::to_string(epoch)) + end;
  }
  write("metrics.jsonl", lines);
  EXPECT_THAT(rows("event"),
              Contains(ElementsAre("skipped steps", "train",
                                   "4 steps skipped because gradients overflowed fp16: 1 in the "
                                   "epoch up to step 10, 3 in the epoch up to step 30")));
}

TEST_F(RunDocumentTest, NodesOfAnEndedRunAreNotRunning) {
  summary_["nodes"][0]["status"] = "running";
  summary_["nodes"][1]["status"] = "waiting";
  for (const char* status : {"worker died", "failed", "interrupted", "running"}) {
    summary_["status"] = status;  // no process holds the folder, so the run has ended
    EXPECT_THAT(rows("node"), ElementsAre(ElementsAre("node", "status", "time", "peak memory"),
                                          ElementsAre("train", "not finished", "–", "–"),
                                          ElementsAre("evaluate", "not started", "–", "–")))
        << status;
  }
}

TEST_F(RunDocumentTest, PlanIsShownWithTheOwnersOfItsMemory) {
  write_plan("train");
  const std::string text = markdown(document());
  EXPECT_THAT(text, HasSubstr("## Memory plan\n\n### train\\[x\\]\n\nNeeds 1.25 GiB of 8.00 GiB "
                              "(memory.budget); live bytes at the peak: 1.07 GiB, in backward"));
  EXPECT_THAT(text, HasSubstr("| saved\\_activation | 900.0 MiB |"));
  EXPECT_THAT(text, HasSubstr("| head.weight | (1000, 512) | float32 | parameter | 2.0 MiB |"));
}

TEST_F(RunDocumentTest, ManyTrainingPlansDoNotHideTheEvaluationPlan) {
  summary_["nodes"] = nlohmann::ordered_json::array();
  for (int i = 0; i < 12; ++i) {
    const std::string node = "train." + std::to_string(i);
    summary_["nodes"].push_back({{"id", node}, {"status", "finished"}});
    write_plan(node);
  }
  summary_["nodes"].push_back({{"id", "evaluate"}, {"status", "finished"}});
  write_plan("evaluate", "evaluate");
  const std::string text = markdown(document());
  EXPECT_THAT(text, HasSubstr("\n### train.9\n"));
  EXPECT_THAT(text, Not(HasSubstr("\n### train.10\n")));
  EXPECT_THAT(text, HasSubstr("\n### evaluate\n"));
  EXPECT_THAT(text, HasSubstr("The plans of 2 other nodes are left out"));
}

TEST_F(RunDocumentTest, MetricsAreFormattedAsInTheSentenceAboveThem) {
  write("nodes/evaluate/metrics.json",
        R"({"top1": 0.8, "top1_interval": {"low": 0.7, "high": 0.9}, "mean_per_class": 0.8,
      "log_loss": 0.5, "samples": 4, "smoke": false, "confusion_matrix": null, "per_class": []})");
  const auto value = [](double number) {
    return nlohmann::ordered_json{{"value", number}, {"step", 1}};
  };
  summary_["metrics"]["evaluate"] = {
      {"evaluate/top1", value(0.8)},           {"evaluate/top1_low", value(0.7)},
      {"evaluate/top1_high", value(0.9)},      {"evaluate/log_loss", value(0.9115984)},
      {"evaluate/samples", value(80)},         {"evaluate/sensitivity/top grade", value(1)},
      {"evaluate/auc/top1 grade", value(0.25)}};
  EXPECT_THAT(
      rows("metric"),
      ElementsAre(ElementsAre("metric", "value"), ElementsAre("auc/top1 grade", "0.25"),
                  ElementsAre("log loss", "0.9116"), ElementsAre("samples", "80"),
                  ElementsAre("sensitivity/top grade", "100.0%"), ElementsAre("top1", "80.0%")));
}

TEST_F(RunDocumentTest, ExamplesAreImagesWithTheirPredictions) {
  write("nodes/evaluate/metrics.json",
        R"({"top1": 0.75, "top1_interval": {"low": 0.3, "high": 0.95}, "mean_per_class": 0.8,
      "log_loss": 0.5, "samples": 4, "smoke": false, "confusion_matrix": [[1, 0], [1, 2]],
      "per_class": [{"class": "rose", "precision": 0.5, "recall": 1, "f1": 0.6, "support": 1},
                    {"class": "tulip", "precision": 1, "recall": 0.6, "f1": 0.8, "support": 3}]})");
  write("nodes/evaluate/examples/1.jpg", "\xFF\xD8jpeg");
  write("nodes/evaluate/examples/examples.json",
        R"([{"group": "wrong", "file": "1.jpg", "name": "a.jpg", "label": "rose",
             "predicted": "tulip", "probability": 0.5}])");
  const Document shown = document();
  std::vector<Gallery> galleries;
  for (const Block& block : shown.blocks)
    if (const auto* one = std::get_if<Gallery>(&block)) galleries.push_back(*one);
  ASSERT_THAT(galleries, SizeIs(1));
  ASSERT_THAT(galleries[0].photos, SizeIs(1));
  EXPECT_EQ(galleries[0].photos[0].jpeg, "\xFF\xD8jpeg");
  EXPECT_THAT(galleries[0].photos[0].lines, ElementsAre("rose predicted as tulip, 50.0%", "a.jpg"));
  EXPECT_THAT(markdown(shown), HasSubstr("Top-1 accuracy 75.0% (95% interval 30.0–95.0%)"));
}

TEST_F(RunDocumentTest, ExamplesOfEachEvaluationKindHaveTheirOwnCaptions) {
  write("nodes/evaluate/metrics.json", R"({"mae": 1.5, "smoke": false})");
  std::string list;
  const auto add = [&](const std::string& facts) {
    list += std::string(list.empty() ? "[" : ", ") +
            R"({"group": "all", "file": "1.jpg", "name": "a.jpg", )" + facts + "}";
  };
  add(R"("label": "b", "predicted": "c", "probability": 0.5, "tied": true,
         "votes": [{"class": "c", "score": 2}, {"class": "b", "score": 0.33333}])");
  add(R"("labels": ["sky", "sea"], "predicted": ["sea", "<b>"], "loss": 0.693147)");
  add(R"("labels": [], "predicted": [], "loss": 0)");
  add(R"("targets": [{"target": "age", "value": 31, "prediction": 35.16789}])");
  add(R"("support_of": "cat")");
  add(R"("labels": "sky", "predicted": [], "loss": 0)");  // damaged
  write("nodes/evaluate/examples/1.jpg", "\xFF\xD8jpeg");
  write("nodes/evaluate/examples/examples.json", list + "]");
  const Document shown = document();
  std::vector<std::vector<std::string>> lines;
  for (const Block& block : shown.blocks) {
    const auto* const gallery = std::get_if<Gallery>(&block);
    for (std::size_t i = 0; gallery && i < gallery->photos.size(); ++i)
      lines.push_back(gallery->photos[i].lines);
  }
  EXPECT_THAT(lines, ElementsAre(ElementsAre("b predicted as c, 50.0%", "tied votes: c 2, b 0.3333",
                                             "a.jpg"),
                                 ElementsAre("true: sky, sea", "predicted: sea, <b>", "missed: sky",
                                             "wrong: <b>", "loss 0.6931", "a.jpg"),
                                 ElementsAre("true: none", "predicted: none", "loss 0", "a.jpg"),
                                 ElementsAre("age 31, predicted 35.17", "a.jpg"),
                                 ElementsAre("support of cat", "a.jpg")));
  const std::string page = html_page(shown);
  EXPECT_THAT(page, HasSubstr("wrong: &lt;b&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("wrong: <b>")));
}

}  // namespace
}  // namespace runner
