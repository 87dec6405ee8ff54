#include "runner/parent/report/recorded_evaluation.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/parent/report/run_report.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class RecordedEvaluationTest : public testing::Test {
 protected:
  RecordedEvaluationTest() {
    metrics_ = json::parse(
        R"({"top1": 0.75, "top1_interval": {"low": 0.3, "high": 0.95}, "mean_per_class": 0.8,
      "log_loss": 0.5, "samples": 4, "smoke": false, "confusion_matrix": [[1, 0], [1, 2]],
      "per_class": [{"class": "rose", "precision": 0.5, "recall": 1, "f1": 0.6, "support": 1},
                    {"class": "tulip", "precision": 1, "recall": 0.6, "f1": 0.8, "support": 3}]})");
    curves_ =
        json::parse(R"({"roc": {"macro": {"auc": 0.9, "fpr": [0, 1], "tpr": [0, 1]}, "micro": null,
      "classes": [{"class": "rose", "auc": 0.9, "fpr": [0, 0, 1], "tpr": [0, 1, 1]}]},
      "calibration": {"error": 0.1, "bins": [{"low": 0, "high": 1, "count": 4, "confidence": 0.9, "accuracy": 0.75}]}})");
  }
  void write(const char* name, const std::string& text) {
    folder_.write(std::string("nodes/evaluate/") + name, text);
  }
  Result<RecordedEvaluation> read() {
    write("metrics.json", metrics_.dump());
    write("curves.json", curves_.dump());
    return read_evaluation(folder_.path(), "evaluate");
  }
  /// The error message without its location.
  std::string damage() {
    const auto result = read();
    if (result) return "read";
    EXPECT_EQ(result.errors().at(0).code, ErrorCode::kDamagedRecord);
    const std::string& message = result.errors().at(0).message;
    return message.substr(message.rfind('/') + 1);
  }

  TemporaryFolder folder_;
  json metrics_, curves_;
};

TEST_F(RecordedEvaluationTest, ReadsAllFields) {
  const auto result = read();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->accuracy, 0.75);
  EXPECT_EQ(result->high, 0.95);
  EXPECT_EQ(result->classes.at(1).name, "tulip");
  EXPECT_EQ(result->confusion.at(1).at(0), 1);
  EXPECT_EQ(result->macro->area, 0.9);
  EXPECT_FALSE(result->micro);
  EXPECT_EQ(result->class_curves.at(0).points.at(1), std::pair(0.0, 1.0));
  EXPECT_EQ(result->bins.at(0).count, 4);
  EXPECT_THAT(evaluated_nodes(folder_.path()), ElementsAre("evaluate"));
}

TEST_F(RecordedEvaluationTest, BaseModelsAreListedOnlyForEnsembles) {
  metrics_["models"] =
      json::parse(R"([{"model": "resnet50", "set": 0, "accuracy": 0.75, "quadratic_kappa": 0.8125},
                                       {"model": "densenet121", "set": 1, "tied": 0, "abstained": 4}])");
  const auto result = read();
  ASSERT_TRUE(result);
  ASSERT_EQ(result->models.size(), 2u);
  EXPECT_EQ(result->models[0].accuracy, 0.75);
  EXPECT_EQ(result->models[0].kappa, 0.8125);
  EXPECT_FALSE(result->models[1].accuracy);
  RunReport report;
  report.evaluations.push_back(*result);
  EXPECT_THAT(
      report_text(report),
      HasSubstr(
          "\n  base models alone: resnet50 75.0%, kappa 0.8125; densenet121 abstains from all\n"));
  EXPECT_EQ(to_json(report)["evaluations"][0]["base_models"].dump(),
            R"([{"model":"resnet50","accuracy":0.75,"quadratic_kappa":0.8125},)"
            R"({"model":"densenet121","accuracy":null,"quadratic_kappa":null}])");
  metrics_["models"][0]["quadratic_kappa"] = 2;
  EXPECT_EQ(damage(),
            "metrics.json' is damaged: 'quadratic_kappa' of one of its 'models' is not a kappa");
  metrics_["models"][0]["accuracy"] = 2;
  EXPECT_EQ(damage(), "metrics.json' is damaged: 'accuracy' is not between 0 and 1");
}

TEST_F(RecordedEvaluationTest, CurvesMayBeMissing) {
  write("metrics.json", metrics_.dump());
  const auto result = read_evaluation(folder_.path(), "evaluate");
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->has_curves);
}

TEST_F(RecordedEvaluationTest, MatrixMayBeMissing) {
  metrics_["confusion_matrix"] = nullptr;
  EXPECT_TRUE(read()->confusion.empty());
}

TEST_F(RecordedEvaluationTest, DamageIsReported) {
  const json metrics = metrics_, curves = curves_;
  const auto with = [&](const char* pointer, const json& value) {
    metrics_ = metrics;
    metrics_[json::json_pointer(pointer)] = value;
    return damage();
  };
  EXPECT_EQ(with("/top1", "much"),
            "metrics.json' is damaged: it has a 'top1' that is not a number");
  EXPECT_EQ(with("/top1", 1.5), "metrics.json' is damaged: 'top1' is not between 0 and 1");
  EXPECT_EQ(with("/samples", -1), "metrics.json' is damaged: 'samples' is not a count");
  EXPECT_EQ(with("/top1_interval", 3),
            "metrics.json' is damaged: its 'top1_interval' is not a JSON object");
  EXPECT_EQ(with("/per_class", json::object()),
            "metrics.json' is damaged: it has a 'per_class' that is not a list");
  EXPECT_EQ(with("/per_class/0/class", 1),
            "metrics.json' is damaged: it has a 'class' that is not a string");
  EXPECT_EQ(
      with("/confusion_matrix/0", {1, 2, 3}),
      "metrics.json' is damaged: 'confusion_matrix' does not have the shape classes x classes");
  EXPECT_EQ(with("/confusion_matrix/0/1", 0.5),
            "metrics.json' is damaged: a cell of 'confusion_matrix' is not a count");
  metrics_ = metrics;
  curves_["roc"]["macro"]["tpr"] = {0};
  EXPECT_EQ(damage(), "curves.json' is damaged: 'fpr' and 'tpr' do not form a curve");
  curves_ = curves;
  curves_["calibration"] = 1;
  EXPECT_EQ(damage(), "curves.json' is damaged: its 'calibration' is not a JSON object");
}

TEST_F(RecordedEvaluationTest, EvaluationWithoutClassesIsNotDamaged) {
  write("metrics.json", R"({"pairs": 4, "image_to_text": {"mean_rank": 1.5}, "smoke": true})");
  const auto measures = read_measures(folder_.path(), "evaluate");
  ASSERT_TRUE(measures);
  EXPECT_TRUE(measures->is_smoke);
  for (const char* text : {R"({"pairs": 4})", R"({"smoke": true, "per_class": []})",
                           R"({"smoke": true, "top1": 1})", "{", "[]"}) {
    write("metrics.json", text);
    EXPECT_FALSE(read_measures(folder_.path(), "evaluate")) << text << " is damage";
  }
}

TEST_F(RecordedEvaluationTest, NonJsonTextCountsAsDamage) {
  write("metrics.json", "{\"top1\": 0.");
  const auto result = read_evaluation(folder_.path(), "evaluate");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.errors().at(0).message,
              testing::EndsWith("metrics.json' is damaged: it is not a JSON object"));
  EXPECT_EQ(result.errors().at(0).help,
            "evaluate the run again with `retort evaluate " + folder_.path().string() + "`");
}

/// Removes each field of both files in turn, or gives it another type: reading reports an error or
/// succeeds, but never crashes.
TEST_F(RecordedEvaluationTest, DamageCausesNoCrash) {
  const json metrics = metrics_, curves = curves_;
  const std::vector<json> others = {nullptr,        -1,     0.5,       1e300, "x", json::array(),
                                    json::object(), {1, 2}, {{"a", 1}}};
  for (const bool is_metrics : {true, false}) {
    const json fields = (is_metrics ? metrics : curves).flatten();
    for (const auto& [pointer, value] : fields.items()) {
      for (std::string place = pointer; !place.empty(); place.resize(place.rfind('/'))) {
        for (const json& other : others) {
          metrics_ = metrics;
          curves_ = curves;
          (is_metrics ? metrics_ : curves_)[json::json_pointer(place)] = other;
          damage();
        }
      }
    }
  }
}

}  // namespace
}  // namespace runner
