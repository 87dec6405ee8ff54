#include "stages/retina/grade_metrics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <string_view>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/text/units.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_metrics.h"

namespace stages {
namespace {

double ratio_or_zero(double part, double whole) { return whole == 0 ? 0 : part / whole; }

std::optional<double> ratio_if_any(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// Returns how well the predictions decide whether a sample has one of the grades for which
/// `is_meant` is true.
template <typename IsMeant>
DecisionQuality decision_quality(const GradeCounts& counts, IsMeant is_meant) {
  std::int64_t hits = 0, meant = 0, left_alone = 0, others = 0;
  for (std::int64_t truth = 0; truth < counts.grades(); ++truth) {
    for (std::int64_t predicted = 0; predicted < counts.grades(); ++predicted) {
      const std::int64_t count = counts.count(truth, predicted);
      (is_meant(truth) ? meant : others) += count;
      if (is_meant(truth) && is_meant(predicted)) hits += count;
      if (!is_meant(truth) && !is_meant(predicted)) left_alone += count;
    }
  }
  return {ratio_if_any(hits, meant), ratio_if_any(left_alone, others)};
}

struct Quality {
  double precision = 0, recall = 0, f1 = 0, support = 0;
};

Quality quality(const GradeCounts& counts, std::int64_t grade) {
  const auto correct = static_cast<double>(counts.count(grade, grade));
  const auto support = static_cast<double>(counts.support(grade));
  const auto predictions = static_cast<double>(counts.predictions(grade));
  return {ratio_or_zero(correct, predictions), ratio_or_zero(correct, support),
          ratio_or_zero(2 * correct, support + predictions), support};
}

}  // namespace

std::int64_t GradeCounts::support(std::int64_t truth) const {
  const auto row = counts_.begin() + truth * grades_;
  return std::accumulate(row, row + grades_, std::int64_t{0});
}

std::int64_t GradeCounts::predictions(std::int64_t predicted) const {
  std::int64_t sum = 0;
  for (std::int64_t truth = 0; truth < grades_; ++truth) sum += count(truth, predicted);
  return sum;
}

std::int64_t GradeCounts::samples() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

std::optional<double> quadratic_kappa(const GradeCounts& counts) {
  const std::int64_t grades = counts.grades();
  std::vector<double> truths, predictions;
  for (std::int64_t grade = 0; grade < grades; ++grade) {
    truths.push_back(static_cast<double>(counts.support(grade)));
    predictions.push_back(static_cast<double>(counts.predictions(grade)));
  }
  double observed = 0,
         expected = 0;  // sums of squared distances; their common denominator cancels out
  for (std::int64_t truth = 0; truth < grades; ++truth) {
    for (std::int64_t predicted = 0; predicted < grades; ++predicted) {
      const auto square = static_cast<double>((truth - predicted) * (truth - predicted));
      observed += square * static_cast<double>(counts.count(truth, predicted));
      expected += square * truths[static_cast<std::size_t>(truth)] *
                  predictions[static_cast<std::size_t>(predicted)];
    }
  }
  if (expected == 0) return std::nullopt;
  return 1 - observed * static_cast<double>(counts.samples()) / expected;
}

double mean_absolute_error(const GradeCounts& counts) {
  std::int64_t sum = 0;
  for (std::int64_t truth = 0; truth < counts.grades(); ++truth)
    for (std::int64_t predicted = 0; predicted < counts.grades(); ++predicted)
      sum += std::abs(truth - predicted) * counts.count(truth, predicted);
  return static_cast<double>(sum) / static_cast<double>(counts.samples());
}

DecisionQuality quality_of_grade(const GradeCounts& counts, std::int64_t grade) {
  return decision_quality(counts, [grade](std::int64_t other) { return other == grade; });
}

DecisionQuality quality_of_referral(const GradeCounts& counts, std::int64_t from) {
  return decision_quality(counts, [from](std::int64_t grade) { return grade >= from; });
}

NamedNumbers grade_numbers(const GradeCounts& counts, const std::vector<std::string>& names,
                           std::optional<std::int64_t> referable_from) {
  const auto samples = static_cast<double>(counts.samples());
  Quality weighted;
  double correct = 0;
  NamedNumbers of_grades;
  for (std::int64_t grade = 0; grade < counts.grades(); ++grade) {
    const Quality own = quality(counts, grade);
    const double share = own.support / samples;
    weighted.precision += share * own.precision;
    weighted.recall += share * own.recall;
    weighted.f1 += share * own.f1;
    correct += static_cast<double>(counts.count(grade, grade));
    const std::string& name = names[static_cast<std::size_t>(grade)];
    const DecisionQuality decision = quality_of_grade(counts, grade);
    if (decision.sensitivity) of_grades.emplace_back("sensitivity/" + name, *decision.sensitivity);
    if (decision.specificity) of_grades.emplace_back("specificity/" + name, *decision.specificity);
    of_grades.emplace_back("precision/" + name, own.precision);
    of_grades.emplace_back("f1/" + name, own.f1);
  }
  NamedNumbers numbers = {{"accuracy", correct / samples},
                          {"weighted_precision", weighted.precision},
                          {"weighted_recall", weighted.recall},
                          {"weighted_f1", weighted.f1}};
  if (const auto kappa = quadratic_kappa(counts)) numbers.emplace_back("quadratic_kappa", *kappa);
  numbers.emplace_back("mean_absolute_error", mean_absolute_error(counts));
  if (referable_from) {
    const DecisionQuality referral = quality_of_referral(counts, *referable_from);
    if (referral.sensitivity) numbers.emplace_back("referable_sensitivity", *referral.sensitivity);
    if (referral.specificity) numbers.emplace_back("referable_specificity", *referral.specificity);
  }
  numbers.insert(numbers.end(), of_grades.begin(), of_grades.end());
  return numbers;
}

namespace {

/// Samples in the order of their scores for one grade, so that each draw can be ranked in one pass.
class GradeRanking {
 public:
  GradeRanking(const GradedSamples& samples, std::int64_t grade) : grade_(grade) {
    const auto grades = samples.grades.size();
    order_.resize(samples.labels.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto score = [&](std::size_t row) {
      return samples.scores[row * grades + static_cast<std::size_t>(grade)];
    };
    std::ranges::sort(order_, {}, score);
    for (const std::size_t row : order_) scores_.push_back(score(row));
  }

  /// Returns the area under the ROC curve if sample i occurs `times[i]` times; nullopt if there are
  /// no samples of the grade or of other grades.
  std::optional<double> area(const std::vector<std::int64_t>& labels,
                             const std::vector<std::int32_t>& times) const {
    double others = 0, own = 0, twice_above = 0;
    for (std::size_t i = 0; i < order_.size();) {
      const double score = scores_[i];
      double new_others = 0, new_own = 0;
      for (; i < order_.size() && scores_[i] == score; ++i)
        (labels[order_[i]] == grade_ ? new_own : new_others) += times[order_[i]];
      twice_above += new_own * (2 * others + new_others);
      others += new_others;
      own += new_own;
    }
    if (own == 0 || others == 0) return std::nullopt;
    return twice_above / (2 * own * others);
  }

 private:
  std::int64_t grade_;
  std::vector<std::size_t> order_;
  std::vector<double> scores_;  // in that order
};

GradeCounts counts_of(const GradedSamples& samples, const std::vector<std::int32_t>& times) {
  GradeCounts counts(std::ssize(samples.grades));
  for (std::size_t i = 0; i < samples.labels.size(); ++i)
    counts.add(samples.labels[i], samples.predicted[i], times[i]);
  return counts;
}

NamedNumbers numbers_of(const GradedSamples& samples, const std::vector<GradeRanking>& rankings,
                        const std::vector<std::int32_t>& times,
                        std::optional<std::int64_t> referable_from) {
  const GradeCounts counts = counts_of(samples, times);
  NamedNumbers numbers = grade_numbers(counts, samples.grades, referable_from);
  double sum = 0, weight = 0;
  for (std::size_t grade = 0; grade < rankings.size(); ++grade) {
    const auto area = rankings[grade].area(samples.labels, times);
    if (!area) continue;
    numbers.emplace_back("auc/" + samples.grades[grade], *area);
    const auto support = static_cast<double>(counts.support(static_cast<std::int64_t>(grade)));
    sum += support * *area;
    weight += support;
  }
  if (weight > 0) numbers.emplace_back("auc_weighted", sum / weight);
  return numbers;
}

const double* find_number(const Grading& grading, const std::string& name) {
  const auto found = std::ranges::find(grading.numbers, name, &NamedNumbers::value_type::first);
  return found == grading.numbers.end() ? nullptr : &found->second;
}

}  // namespace

GradingOptions read_grading_options(runner::ConfigReader& reader) {
  GradingOptions options;
  reader.read("referable_from", options.referable_from);
  reader.read("target_accuracy", options.target_accuracy);
  reader.read("bootstrap", options.bootstrap);
  return options;
}

Grading grade(const GradedSamples& samples, const GradingOptions& options, std::uint64_t seed) {
  const std::size_t size = samples.labels.size();
  assert(size > 0 && samples.predicted.size() == size &&
         samples.scores.size() == size * samples.grades.size());
  std::vector<GradeRanking> rankings;
  for (std::int64_t grade = 0; grade < std::ssize(samples.grades); ++grade)
    rankings.emplace_back(samples, grade);
  std::vector<std::int32_t> times(size, 1);
  Grading grading{.counts = counts_of(samples, times),
                  .numbers = numbers_of(samples, rankings, times, options.referable_from)};
  std::map<std::string, std::vector<double>> drawn;
  for (std::int64_t draw = 0; draw < options.bootstrap; ++draw) {
    times = bootstrap_times(std::ssize(times), seed, draw);
    for (const auto& [name, value] : numbers_of(samples, rankings, times, options.referable_from))
      drawn[name].push_back(value);
  }
  for (auto& [name, values] : drawn) {
    if (!find_number(grading, name)) continue;
    grading.intervals[name] = percentile_interval(values);
  }
  return grading;
}

nlohmann::ordered_json to_json(const Grading& grading, const GradingOptions& options) {
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object(), json;
  for (const auto& [name, value] : grading.numbers) numbers[name] = value;
  json["numbers"] = std::move(numbers);
  if (!grading.intervals.empty()) {
    nlohmann::ordered_json intervals = {{"confidence", 0.95}, {"draws", options.bootstrap}};
    for (const auto& [name, value] : grading.numbers) {
      const auto found = grading.intervals.find(name);
      if (found != grading.intervals.end())
        intervals[name] = {found->second.low, found->second.high};
    }
    json["intervals"] = std::move(intervals);
  }
  if (options.referable_from) json["referable_from"] = *options.referable_from;
  if (options.target_accuracy) {
    json["target_accuracy"] = {
        {"target", *options.target_accuracy},
        {"reached", *find_number(grading, "accuracy") >= *options.target_accuracy}};
  }
  return json;
}

std::string headline(const Grading& grading) {
  const auto percent = [](double share) { return runner::decimal(100 * share, 1) + "%"; };
  const auto with_interval = [&](const std::string& name) {
    const double* value = find_number(grading, name);
    const auto interval = grading.intervals.find(name);
    std::string text = value ? runner::decimal(*value, 4) : "not defined";
    if (interval != grading.intervals.end())
      text += " (95% interval " + runner::decimal(interval->second.low, 4) + "–" +
              runner::decimal(interval->second.high, 4) + ")";
    return text;
  };
  std::string text = "quadratic kappa " + with_interval("quadratic_kappa") +
                     ", mean absolute error " + with_interval("mean_absolute_error");
  const double *sensitivity = find_number(grading, "referable_sensitivity"),
               *specificity = find_number(grading, "referable_specificity");
  if (sensitivity || specificity) text += ", referable: ";
  if (sensitivity) text += percent(*sensitivity) + " sensitivity";
  if (specificity) text += (sensitivity ? ", " : "") + percent(*specificity) + " specificity";
  return text;
}

namespace {

using runner::ErrorCode;
using runner::StageError;

/// True for metrics that a classification evaluation does not record under another name.
bool is_recorded(std::string_view name) {
  return name != "accuracy" && !name.starts_with("weighted_") && !name.starts_with("precision/") &&
         !name.starts_with("f1/");
}

}  // namespace

GradeReportOptions read_grade_report_options(runner::ConfigReader& reader) {
  GradeReportOptions options;
  options.grading = read_grading_options(reader);
  reader.read("calibration_bins", options.calibration_bins);
  reader.read("csv", options.csv);
  return options;
}

void check_grades(const Dataset& test, const std::vector<std::string>& grades,
                  const GradingOptions& options) {
  const DatasetDescription described = test.describe();
  if (std::ranges::find(described.tensors, "label", &TensorSpec::name) == described.tensors.end()) {
    throw StageError(ErrorCode::kLabelOutOfRange, "the test set has no labels")
        .with_help("evaluation compares predictions with labels: use a labeled dataset");
  }
  if (options.referable_from && *options.referable_from >= std::ssize(grades)) {
    throw StageError(ErrorCode::kOptionConflict,
                     "referable_from is " + std::to_string(*options.referable_from) +
                         ", but the grades go from 0 to " + std::to_string(grades.size() - 1))
        .at("/referable_from")
        .with_help("set referable_from to a grade above 0, or to null");
  }
}

runner::Outputs report_grades(const GradesToReport& grades, const GradeReportOptions& options,
                              runner::RunContext& context) {
  const ClassifiedSamples& samples = grades.samples;
  const Grading grading = grade(grades.graded, options.grading, context.node().seed);
  const ClassificationMetrics metrics = classification_metrics(
      samples.logits, samples.labels, /*top_k=*/{}, /*present=*/{}, samples.predicted);
  Classified classified{samples, metrics, grades.graded.grades, grades.checkpoint};
  classified.besides["grading"] = to_json(grading, options.grading);
  classified.besides.update(grades.besides);
  for (const auto& number : grading.numbers) {
    if (is_recorded(number.first)) classified.values.push_back(number);
  }
  classified.values.insert(classified.values.end(), grades.numbers.begin(), grades.numbers.end());
  runner::Outputs outputs = report_classification(
      classified,
      {.csv = false, .suspects = options.csv, .calibration_bins = options.calibration_bins},
      context);
  context.say(headline(grading));
  if (options.grading.target_accuracy && metrics.top1 < *options.grading.target_accuracy)
    context.say("the accuracy is below target_accuracy");
  return outputs;
}

runner::Outputs planned_results(std::int64_t samples, std::int64_t grades) {
  const auto predictions = std::make_shared<Predictions>();
  predictions->scores =
      torch::empty({samples, grades}, at::TensorOptions(at::kFloat).device(at::kMeta));
  predictions->labels = torch::empty({samples}, at::TensorOptions(at::kLong).device(at::kMeta));
  return {{"metrics", std::make_shared<Metrics>()}, {"predictions", predictions}};
}

}  // namespace stages
