#include "stages/retina/grade_metrics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/text/decimal.h"
#include "stages/random/random.h"

namespace stages {
namespace {

/// The samples by their score for one grade, so that every draw is ranked in one pass.
class GradeRanking {
 public:
  GradeRanking(const GradedSamples& samples, std::int64_t grade) : grade_(grade) {
    const auto grades = samples.grades.size();
    order_.resize(samples.labels.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto score = [&](std::size_t row) { return samples.scores[row * grades + static_cast<std::size_t>(grade)]; };
    std::ranges::sort(order_, {}, score);
    for (const std::size_t row : order_) scores_.push_back(score(row));
  }

  /// The area under the ROC curve where sample i is there `times[i]` times.
  std::optional<double> area(const std::vector<std::int64_t>& labels, const std::vector<std::int32_t>& times) const {
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
  for (std::size_t i = 0; i < samples.labels.size(); ++i) counts.add(samples.labels[i], samples.predicted[i], times[i]);
  return counts;
}

NamedNumbers numbers_of(const GradedSamples& samples, const std::vector<GradeRanking>& rankings,
                        const std::vector<std::int32_t>& times, std::optional<std::int64_t> referable_from) {
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

/// Between the two nearest of sorted values, as numpy's percentile.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
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
  assert(size > 0 && samples.predicted.size() == size && samples.scores.size() == size * samples.grades.size());
  std::vector<GradeRanking> rankings;
  for (std::int64_t grade = 0; grade < std::ssize(samples.grades); ++grade) rankings.emplace_back(samples, grade);
  std::vector<std::int32_t> times(size, 1);
  Grading grading{.counts = counts_of(samples, times),
                  .numbers = numbers_of(samples, rankings, times, options.referable_from)};
  std::map<std::string, std::vector<double>> drawn;
  for (std::int64_t draw = 0; draw < options.bootstrap; ++draw) {
    Random random({seed, static_cast<std::uint64_t>(draw)});
    std::ranges::fill(times, 0);
    for (std::size_t i = 0; i < size; ++i)
      ++times[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(size)))];
    for (const auto& [name, value] : numbers_of(samples, rankings, times, options.referable_from))
      drawn[name].push_back(value);
  }
  constexpr double kOutside = 0.025;
  for (auto& [name, values] : drawn) {
    if (!find_number(grading, name)) continue;
    std::ranges::sort(values);
    grading.intervals[name] = {quantile(values, kOutside), quantile(values, 1 - kOutside)};
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
      if (found != grading.intervals.end()) intervals[name] = {found->second.low, found->second.high};
    }
    json["intervals"] = std::move(intervals);
  }
  if (options.referable_from) json["referable_from"] = *options.referable_from;
  if (options.target_accuracy) {
    json["target_accuracy"] = {{"target", *options.target_accuracy},
                               {"reached", *find_number(grading, "accuracy") >= *options.target_accuracy}};
  }
  return json;
}

std::string headline(const Grading& grading) {
  const auto percent = [](double share) { return runner::decimal(100 * share, 1) + " %"; };
  std::string text = "quadratic kappa ";
  const double* kappa = find_number(grading, "quadratic_kappa");
  text += kappa ? runner::decimal(*kappa, 4) : "not defined";
  if (const auto interval = grading.intervals.find("quadratic_kappa"); interval != grading.intervals.end()) {
    text += " (95 % interval " + runner::decimal(interval->second.low, 4) + "–" +
            runner::decimal(interval->second.high, 4) + ")";
  }
  const double *sensitivity = find_number(grading, "referable_sensitivity"),
               *specificity = find_number(grading, "referable_specificity");
  if (sensitivity || specificity) text += ", referable: ";
  if (sensitivity) text += percent(*sensitivity) + " sensitivity";
  if (specificity) text += (sensitivity ? ", " : "") + percent(*specificity) + " specificity";
  return text;
}

}  // namespace stages
