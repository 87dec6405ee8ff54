// Classification metrics, compared with scikit-learn, on scores with ties and absent classes.

#include "stages/artifact/class_scores.h"
#include "stages/artifact/label_ranking.h"
#include "stages/artifact/label_thresholds.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/multi_label_metrics.h"
#include "stages/evaluate/regression_metrics.h"
#include "stages/retina/grade_metrics.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

void expect_quality(const ClassQuality& actual, const nlohmann::json& expected,
                    const std::string& what) {
  expect_close(actual.precision, expected.at("precision"), what + " precision");
  expect_close(actual.recall, expected.at("recall"), what + " recall");
  expect_close(actual.f1, expected.at("f1"), what + " f1");
}

void expect_confusion(const ConfusionMatrix& confusion, const nlohmann::json& recorded) {
  const auto expected = recorded.at("confusion").get<std::vector<std::vector<std::int64_t>>>();
  ASSERT_EQ(confusion.classes(), static_cast<std::int64_t>(expected.size()));
  for (std::int64_t truth = 0; truth < confusion.classes(); ++truth) {
    const auto& row = expected[static_cast<std::size_t>(truth)];
    for (std::int64_t predicted = 0; predicted < confusion.classes(); ++predicted) {
      EXPECT_EQ(confusion.count(truth, predicted), row[static_cast<std::size_t>(predicted)])
          << truth << " " << predicted;
    }
    EXPECT_EQ(confusion.support(truth), recorded.at("support").at(static_cast<std::size_t>(truth)))
        << truth;
  }
}

void expect_metrics(const ClassificationMetrics& metrics, const nlohmann::json& recorded) {
  expect_confusion(metrics.confusion, recorded);
  std::vector<std::string> classes;
  for (std::size_t label = 0; label < metrics.of_class.size(); ++label) {
    const std::string& name = classes.emplace_back(std::to_string(label));
    expect_close(metrics.of_class[label].precision, recorded.at("precision").at(label),
                 "precision of " + name);
    expect_close(metrics.of_class[label].recall, recorded.at("recall").at(label),
                 "recall of " + name);
    expect_close(metrics.of_class[label].f1, recorded.at("f1").at(label), "f1 of " + name);
  }
  expect_quality(metrics.macro, recorded.at("average").at("macro"), "macro");
  expect_quality(metrics.weighted, recorded.at("average").at("weighted"), "weighted");
  expect_close(metrics.top1, recorded.at("accuracy"), "accuracy");
  expect_close(metrics.mean_per_class, recorded.at("balanced_accuracy"), "balanced accuracy");
  expect_close(metrics.log_loss, recorded.at("log_loss"), "log loss");
  EXPECT_EQ(metrics.top_k.size(), recorded.at("topk").size());
  for (const auto& [k, share] : metrics.top_k)
    expect_close(share, recorded.at("topk").at(std::to_string(k)), "top-" + std::to_string(k));
  const nlohmann::json report = report_dict(metrics, classes);
  const nlohmann::json actual = report.flatten(), wanted = recorded.at("report").flatten();
  EXPECT_EQ(actual.size(), wanted.size());
  for (const auto& [place, value] : wanted.items())
    expect_close(actual.at(place), value, "report" + place);
}

void expect_curves(const ClassificationCurves& curves, const nlohmann::json& recorded) {
  for (std::size_t label = 0; label < curves.of_class.size(); ++label) {
    const nlohmann::json& area = recorded.at("auc_one_vs_rest").at(std::to_string(label));
    ASSERT_EQ(curves.of_class[label].has_value(), !area.is_null()) << label;
    if (!area.is_null())
      expect_close(curves.of_class[label]->area, area, "area of class " + std::to_string(label));
  }
  ASSERT_EQ(curves.macro_area.has_value(), !recorded.at("auc_macro_over_defined").is_null());
  if (curves.macro_area)
    expect_close(*curves.macro_area, recorded.at("auc_macro_over_defined"), "macro area");
  expect_close(curves.calibration.error, recorded.at("ece_15"), "calibration error");
}

/// Evaluates the predictions of `recorded` as grades.
void expect_grades(const at::Tensor& logits, const RecordedCase& recorded) {
  GradedSamples samples;
  samples.labels = recorded.json.at("truth").get<std::vector<std::int64_t>>();
  samples.predicted = recorded.json.at("predicted").get<std::vector<std::int64_t>>();
  for (std::int64_t grade = 0; grade < logits.size(1); ++grade)
    samples.grades.push_back(std::to_string(grade));
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    for (std::int64_t grade = 0; grade < logits.size(1); ++grade)
      samples.scores.push_back(class_scores(logits, row).probability(grade));
  }
  const Grading grading = grade(samples, {}, /*seed=*/0);
  std::map<std::string, double> numbers(grading.numbers.begin(), grading.numbers.end());
  expect_close(numbers.at("accuracy"), recorded.json.at("accuracy"), "accuracy");
  expect_close(numbers.at("quadratic_kappa"), recorded.json.at("kappa_quadratic"),
               "quadratic kappa");
  if (const auto error = recorded.json.find("mean_absolute_error"); error != recorded.json.end())
    expect_close(numbers.at("mean_absolute_error"), *error, "mean absolute error");
  for (const char* average : {"precision", "recall", "f1"}) {
    expect_close(numbers.at(std::string("weighted_") + average),
                 recorded.json.at("average").at("weighted").at(average), average);
  }
  for (std::size_t grade = 0; grade < samples.grades.size(); ++grade) {
    const std::string name = samples.grades[grade];
    if (numbers.contains("specificity/" + name))
      expect_close(numbers.at("specificity/" + name), recorded.json.at("specificity").at(grade),
                   "specificity " + name);
    const nlohmann::json& area = recorded.json.at("auc_one_vs_rest").at(name);
    ASSERT_EQ(numbers.contains("auc/" + name), !area.is_null()) << name;
    if (!area.is_null()) expect_close(numbers.at("auc/" + name), area, "area of " + name);
  }
  if (const auto area = recorded.json.find("auc_ovr_weighted");
      area != recorded.json.end() && area->is_number())
    expect_close(numbers.at("auc_weighted"), *area, "weighted area");
}

void compare_classification(const RecordedCase& recorded) {
  const at::Tensor logits = tensor_of(recorded.json.at("logits")),
                   labels = integers_of(recorded.json.at("truth"));
  std::vector<std::int64_t> top_k;
  for (const auto& [k, share] : recorded.json.at("topk").items()) top_k.push_back(std::stoll(k));
  const auto predicted = recorded.json.at("predicted").get<std::vector<std::int64_t>>();
  for (std::size_t i = 0; i < predicted.size(); ++i)
    EXPECT_EQ(class_scores(logits, static_cast<std::int64_t>(i)).predicted(), predicted[i]) << i;
  expect_metrics(classification_metrics(logits, labels, top_k), recorded.json);
  expect_curves(classification_curves(logits, labels), recorded.json);
  expect_grades(logits, recorded);
}

/// scikit-learn may omit points on a straight line, so its points are searched for on our curve.
bool is_on(const RocCurve& curve, double false_positives, double true_positives) {
  for (std::size_t i = 0; i < curve.true_positives.size(); ++i) {
    if (std::abs(curve.false_positives[i] - false_positives) < 1e-12 &&
        std::abs(curve.true_positives[i] - true_positives) < 1e-12)
      return true;
  }
  return false;
}

void compare_binary_scores(const RecordedCase& recorded) {
  const nlohmann::json &scores = recorded.json.at("score"), &truth = recorded.json.at("truth");
  std::vector<Detected> samples;
  for (std::size_t i = 0; i < scores.size(); ++i) samples.push_back({scores[i], truth.at(i) == 1});
  const auto curve = roc_curve(samples);
  ASSERT_TRUE(curve);
  expect_close(curve->area, recorded.json.at("auc"), "area");
  const nlohmann::json &rates = recorded.json.at("roc").at("fpr"),
                       &hits = recorded.json.at("roc").at("tpr");
  ASSERT_FALSE(rates.empty());
  for (std::size_t i = 0; i < rates.size(); ++i)
    EXPECT_TRUE(is_on(*curve, rates[i], hits.at(i))) << rates[i] << " " << hits.at(i);
  GTEST_SKIP() << "average_precision, matthews and at_0.5 are not implemented";
}

void expect_share(const std::optional<double>& actual, const nlohmann::json& expected,
                  const std::string& what) {
  ASSERT_EQ(actual.has_value(), !expected.is_null()) << what;
  if (actual) expect_close(*actual, expected, what);
}

/// Compares the precision-recall curve of one label, given its logits and labels.
void expect_precision_recall(const at::Tensor& logits, const at::Tensor& labels,
                             const nlohmann::json& expected, const std::string& what) {
  std::vector<ScoredLabel> samples;
  for (std::int64_t row = 0; row < logits.size(0); ++row)
    samples.push_back({logits[row].item<double>(), labels[row].item<double>() != 0});
  const auto curve = precision_recall_curve(samples);
  ASSERT_EQ(curve.has_value(), !expected.is_null()) << what;
  if (!curve) return;
  ASSERT_EQ(curve->recall.size(), expected.at("recall").size()) << what;
  for (std::size_t i = 0; i < curve->recall.size(); ++i) {
    expect_close(curve->recall[i], expected.at("recall").at(i), "recall" + what);
    expect_close(curve->precision[i], expected.at("precision").at(i), "precision" + what);
  }
}

void compare_multi_label_scores(const RecordedCase& recorded) {
  const at::Tensor logits = tensor_of(recorded.json.at("logits")).to(at::kFloat),
                   labels = tensor_of(recorded.json.at("truth"));
  const std::vector<double> thresholds =
      chosen_thresholds(torch::cat({logits, labels.to(at::kFloat)}, 1));
  const MultiLabelMetrics metrics =
      multi_label_metrics(logits, labels.to(at::kByte).contiguous(), thresholds);
  for (std::size_t label = 0; label < metrics.of_label.size(); ++label) {
    const LabelQuality& one = metrics.of_label[label];
    const std::string name = " of label " + std::to_string(label);
    expect_share(one.average_precision, recorded.json.at("average_precision").at(label),
                 "average precision" + name);
    expect_share(one.area, recorded.json.at("auc").at(label), "area" + name);
    const auto column = static_cast<std::int64_t>(label);
    expect_precision_recall(logits.select(1, column), labels.select(1, column),
                            recorded.json.at("curve").at(label), name);
    const nlohmann::json& threshold = recorded.json.at("threshold").at(label);
    expect_close(one.threshold, threshold.is_null() ? 0.5 : threshold.get<double>(),
                 "threshold" + name);
    expect_close(one.found.f1, recorded.json.at("f1").at(label), "f1" + name);
  }
  expect_share(metrics.mean_average_precision, recorded.json.at("mean_average_precision"), "mean");
  expect_quality(metrics.micro, recorded.json.at("average").at("micro"), "micro");
  expect_quality(metrics.macro, recorded.json.at("average").at("macro"), "macro");
  expect_close(metrics.hamming_loss, recorded.json.at("hamming_loss"), "hamming loss");
  expect_close(metrics.subset_accuracy, recorded.json.at("subset_accuracy"), "subset accuracy");
}

void expect_errors(const TargetErrors& actual, const nlohmann::json& expected,
                   const nlohmann::json::json_pointer& place) {
  expect_close(actual.mae, expected.at("mae").at(place), "mae" + place.to_string());
  expect_close(actual.rmse, expected.at("rmse").at(place), "rmse" + place.to_string());
  expect_close(actual.r2.value(), expected.at("r2").at(place), "r2" + place.to_string());
}

void compare_regression_scores(const RecordedCase& recorded) {
  const TrainedTargets trained = target_statistics(tensor_of(recorded.json.at("train")));
  const RegressionMetrics metrics =
      regression_metrics({.names = {"a", "b", "c"},
                          .predictions = tensor_of(recorded.json.at("predictions")).contiguous(),
                          .targets = tensor_of(recorded.json.at("truth")).contiguous()},
                         trained.mean, /*draws=*/0, /*seed=*/0);
  const nlohmann::json &errors = recorded.json.at("errors"),
                       &baseline = recorded.json.at("baseline");
  using Place = nlohmann::json::json_pointer;
  for (std::size_t target = 0; target < metrics.of_targets.size(); ++target) {
    const Place place = Place("/each") / target;
    expect_close(trained.mean[target], recorded.json.at("mean").at(target), "mean");
    expect_close(trained.standard_deviation[target], recorded.json.at("scale").at(target), "scale");
    expect_errors(metrics.of_targets[target], errors, place);
    expect_errors(metrics.baseline_of[target], baseline, place);
  }
  expect_errors(metrics.mean, errors, Place("/mean"));
  expect_errors(metrics.baseline.value(), baseline, Place("/mean"));
}

}  // namespace

std::vector<CaseKind> metric_cases() {
  return {number_kind("RegressionScores", "regression_scores", compare_regression_scores),
          number_kind("MultiLabelScores", "multi_label_scores", compare_multi_label_scores),
          number_kind("Classifications", "classification", compare_classification),
          number_kind("BinaryScores", "binary_scores", compare_binary_scores)};
}
