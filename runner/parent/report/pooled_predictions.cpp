#include "runner/parent/report/pooled_predictions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runner/parent/report/pooled_ranking.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/csv.h"

namespace runner {
namespace {

constexpr std::size_t kLargestPooledTable = std::size_t{1} << 30;
// What precedes a grade in a column name: for ensembles that vote, and for single networks.
constexpr std::array<std::string_view, 2> kGradePrefixes = {"score_", "p_"};

std::optional<std::size_t> place_of_column(const std::vector<std::string>& columns,
                                           std::string_view name) {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

std::size_t required_column(const std::vector<std::string>& columns,
                            std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto found = place_of_column(columns, name)) return *found;
  throw std::runtime_error("it has no column '" + std::string(*names.begin()) + "'");
}

/// Parses predictions.csv. Throws std::runtime_error if it is not valid.
PredictionTable prediction_table_from(std::string_view text) {
  PredictionTable table;
  auto row = take_csv_line(text);
  if (!row) throw std::runtime_error("it is empty");
  table.columns = *std::move(row);
  table.name = required_column(table.columns, {"name"});
  table.label = required_column(table.columns, {"label", "grade"});
  table.predicted = required_column(table.columns, {"predicted", "prediction"});
  table.group = place_of_column(table.columns, "group");
  while (const auto best =
             place_of_column(table.columns, "top_" + std::to_string(table.best.size() + 1)))
    table.best.push_back(*best);
  table.label_probability = place_of_column(table.columns, "label_probability");
  for (const std::string_view prefix : kGradePrefixes)
    if (table.grades.empty() && place_of_column(table.columns, "grade"))
      for (const std::string& one : table.columns)
        if (one.starts_with(prefix)) table.grades.push_back(one.substr(prefix.size()));
  for (const std::string& grade : table.grades)
    if (const auto place = place_of_column(table.columns, "p_" + grade))
      table.probabilities.push_back(*place);
  if (table.probabilities.size() != table.grades.size()) table.probabilities.clear();
  for (std::size_t number = 2; (row = take_csv_line(text)); ++number) {
    if (row->size() != table.columns.size())
      throw std::runtime_error("its row " + std::to_string(number) + " has " +
                               std::to_string(row->size()) + " fields, not " +
                               std::to_string(table.columns.size()));
    table.rows.push_back(*std::move(row));
  }
  return table;
}

}  // namespace

Result<PredictionTable> read_prediction_table(const std::filesystem::path& folder,
                                              const std::string& node) {
  const std::filesystem::path path = RunLayout(folder).node(node).folder() / "predictions.csv";
  const auto text = real_file_system().read(path, kLargestPooledTable);
  if (!text) {
    return Diagnostic{ErrorCode::kNoResults,
                      {},
                      "",
                      "there is no '" + path.string() + "'",
                      "evaluate with csv: true, the default for evaluations with classes"};
  }
  try {
    return prediction_table_from(*text);
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' cannot be used: " + error.what(),
                      "evaluate the run again with `retort evaluate " + folder.string() + "`"};
  }
}

namespace {

/// A sample in the form the bootstrap needs.
struct PooledSample {
  std::uint32_t label = 0, predicted = 0;  // numbers of classes
  std::uint32_t rank = 0;                  // how many classes rank above the label
  double loss = 0;                         // minus the logarithm of the label's probability
  std::size_t number = 0;                  // among all samples
};

/// Returns the number in a field; NaN if it is not a number.
double number_of_field(const std::string& field) {
  double value = 0;
  const auto end = std::from_chars(field.data(), field.data() + field.size(), value);
  return end.ec == std::errc() && end.ptr == field.data() + field.size() ? value : std::nan("");
}

/// The samples of all tables, by group.
struct PooledSamples {
  std::vector<std::string> classes;
  std::vector<std::vector<PooledSample>> groups;
  std::int64_t count = 0;
  bool has_groups = false;
  bool has_losses = true;
  std::vector<PooledRanking> rankings;  // by grade; empty without their probabilities

  /// Returns the mean, over the grades, of the areas under their curves; nullopt if none is
  /// defined.
  std::optional<double> area(const std::vector<std::uint32_t>& times) const {
    double sum = 0, defined = 0;
    for (const PooledRanking& ranking : rankings) {
      const auto area = ranking.area(times);
      if (!area) continue;
      sum += *area;
      ++defined;
    }
    return defined == 0 ? std::nullopt : std::optional(sum / defined);
  }
};

/// Returns the column with the probability of the label of `row`, if there is one.
std::optional<std::size_t> column_of_label(const PredictionTable& table,
                                           const std::vector<std::string>& row) {
  if (table.label_probability || table.probabilities.empty()) return table.label_probability;
  const auto grade = std::ranges::find(table.grades, row[table.label]);
  if (grade == table.grades.end()) return std::nullopt;
  return table.probabilities[static_cast<std::size_t>(grade - table.grades.begin())];
}

/// Returns a ranking of the samples for each grade; empty if a table lacks their probabilities.
std::vector<PooledRanking> grade_rankings(std::span<const PredictionTable> tables) {
  const std::vector<std::string>& grades = tables.front().grades;
  for (const PredictionTable& table : tables)
    if (table.probabilities.empty() || table.grades != grades) return {};
  std::vector<PooledRanking> rankings;
  for (std::size_t grade = 0; grade < grades.size(); ++grade) {
    std::vector<PooledRanking::Scored> scored;
    for (const PredictionTable& table : tables) {
      for (const std::vector<std::string>& row : table.rows) {
        if (row[table.predicted].empty()) continue;  // the ensemble abstains
        const double score = number_of_field(row[table.probabilities[grade]]);
        if (std::isnan(score)) return {};
        scored.push_back({score, row[table.label] == grades[grade]});
      }
    }
    rankings.emplace_back(std::move(scored));
  }
  return rankings;
}

PooledSamples pooled_samples(std::span<const PredictionTable> tables) {
  PooledSamples all;
  std::map<std::string, std::uint32_t> numbers;
  const auto number = [&](const std::string& name) {
    const auto [found, is_new] = numbers.emplace(name, static_cast<std::uint32_t>(numbers.size()));
    if (is_new) all.classes.push_back(name);
    return found->second;
  };
  // Grades are numbered in their order, which kappa depends on.
  for (const std::string& grade : tables.front().grades) number(grade);
  std::map<std::string, std::size_t> groups;
  for (const PredictionTable& table : tables) {
    for (const std::vector<std::string>& row : table.rows) {
      if (row[table.predicted].empty()) continue;  // the ensemble abstains
      PooledSample sample{.label = number(row[table.label]),
                          .predicted = number(row[table.predicted])};
      const auto probability = column_of_label(table, row);
      sample.loss = probability ? -std::log(number_of_field(row[*probability])) : std::nan("");
      all.has_losses &= std::isfinite(sample.loss);
      sample.number = static_cast<std::size_t>(all.count);
      while (sample.rank < table.best.size() && row[table.best[sample.rank]] != row[table.label])
        ++sample.rank;
      const std::string group = table.group ? row[*table.group] : "";
      all.has_groups |= !group.empty();
      const auto [found, is_new] =
          group.empty() ? std::pair(groups.end(), true) : groups.emplace(group, all.groups.size());
      if (is_new) all.groups.emplace_back();
      (is_new ? all.groups.back() : all.groups[found->second]).push_back(sample);
      ++all.count;
    }
  }
  all.rankings = grade_rankings(tables);
  return all;
}

/// The counts over a set of samples that determine the metrics.
class PooledCounts {
 public:
  PooledCounts(const PooledSamples& all, std::size_t ranks, bool has_grades)
      : all_(all),
        support_(all.classes.size()),
        predictions_(all.classes.size()),
        correct_(all.classes.size()),
        of_rank_(ranks),
        has_grades_(has_grades),
        times_(static_cast<std::size_t>(all.count)) {}

  void clear() {
    for (auto* const counts : {&support_, &predictions_, &correct_, &of_rank_})
      std::ranges::fill(*counts, 0);
    std::ranges::fill(times_, 0);
    samples_ = 0;
    squares_ = 0;
    losses_ = 0;
  }
  void add(const PooledSample& sample) {
    ++samples_;
    ++support_[sample.label];
    ++predictions_[sample.predicted];
    if (sample.label == sample.predicted) ++correct_[sample.label];
    if (sample.rank < of_rank_.size()) ++of_rank_[sample.rank];
    const double apart = static_cast<double>(sample.label) - static_cast<double>(sample.predicted);
    squares_ += apart * apart;
    losses_ += sample.loss;
    ++times_[sample.number];
  }

  /// Returns the metrics in a fixed order; nullopt: undefined.
  std::vector<std::pair<std::string, std::optional<double>>> metrics(
      const std::vector<std::size_t>& ks) const {
    std::vector<std::pair<std::string, std::optional<double>>> all = {{"top1", accuracy()}};
    for (const std::size_t k : ks)
      if (k > 1 && k <= of_rank_.size()) all.emplace_back("top" + std::to_string(k), top(k));
    Means macro, weighted;
    double recalls = 0;
    std::int64_t present = 0;
    for (std::size_t label = 0; label < support_.size(); ++label) {
      const double precision = ratio(correct_[label], predictions_[label]),
                   recall = ratio(correct_[label], support_[label]),
                   f1 = ratio(2 * correct_[label], support_[label] + predictions_[label]);
      macro.add(precision, recall, f1, 1 / static_cast<double>(support_.size()));
      weighted.add(precision, recall, f1, ratio(support_[label], samples_));
      if (support_[label] == 0) continue;
      recalls += recall;
      ++present;
    }
    all.emplace_back("mean_per_class", recalls / static_cast<double>(present));
    macro.tell("macro_", all);
    weighted.tell("weighted_", all);
    if (has_grades_) all.emplace_back("quadratic_kappa", kappa());
    if (all_.has_losses) all.emplace_back("log_loss", losses_ / static_cast<double>(samples_));
    if (!all_.rankings.empty()) all.emplace_back("auc_macro", all_.area(times_));
    return all;
  }

 private:
  struct Means {
    double precision = 0, recall = 0, f1 = 0;
    void add(double its_precision, double its_recall, double its_f1, double weight) {
      precision += weight * its_precision;
      recall += weight * its_recall;
      f1 += weight * its_f1;
    }
    void tell(const std::string& prefix,
              std::vector<std::pair<std::string, std::optional<double>>>& all) const {
      all.emplace_back(prefix + "precision", precision);
      all.emplace_back(prefix + "recall", recall);
      all.emplace_back(prefix + "f1", f1);
    }
  };

  static double ratio(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
  double accuracy() const {
    std::int64_t sum = 0;
    for (const std::int64_t correct : correct_) sum += correct;
    return ratio(sum, samples_);
  }
  double top(std::size_t k) const {
    std::int64_t sum = 0;
    for (std::size_t rank = 0; rank < k; ++rank) sum += of_rank_[rank];
    return ratio(sum, samples_);
  }
  /// Cohen's kappa with quadratic weights: 1 - observed / expected squared distance of the grades.
  std::optional<double> kappa() const {
    double expected = 0;
    for (std::size_t a = 0; a < support_.size(); ++a) {
      for (std::size_t b = 0; b < predictions_.size(); ++b) {
        const double apart = static_cast<double>(a) - static_cast<double>(b);
        expected +=
            apart * apart * static_cast<double>(support_[a]) * static_cast<double>(predictions_[b]);
      }
    }
    if (expected == 0) return std::nullopt;
    return 1 - squares_ * static_cast<double>(samples_) / expected;
  }

  const PooledSamples& all_;
  std::vector<std::int64_t> support_, predictions_, correct_, of_rank_;
  const bool has_grades_;
  std::int64_t samples_ = 0;
  double squares_ = 0;  // sum of squared distances between label and prediction
  double losses_ = 0;
  std::vector<std::uint32_t> times_;  // how often each sample was added
};

}  // namespace

PooledMetrics pooled_metrics(std::span<const PredictionTable> tables,
                             const std::vector<std::size_t>& ks, std::uint64_t seed) {
  const PooledSamples all = pooled_samples(tables);
  if (all.count == 0) return {};
  const auto groups = std::ssize(all.groups);
  PooledMetrics result{.samples = all.count,
                       .groups = groups,
                       .has_groups = all.has_groups,
                       .draws = bootstrap_draws(all.count),
                       .seed = seed,
                       .metrics = {}};
  std::size_t ranks = tables.front().best.size();
  for (const PredictionTable& table : tables) ranks = std::min(ranks, table.best.size());
  PooledCounts counts(all, ranks, !tables.front().grades.empty());
  for (const auto& group : all.groups)
    for (const PooledSample& sample : group) counts.add(sample);
  for (const auto& [name, value] : counts.metrics(ks))
    if (value) result.metrics.push_back({.name = name, .value = *value});
  std::map<std::string, std::vector<double>> drawn;
  DrawnNumbers random(seed);
  for (std::int64_t draw = 0; draw < result.draws; ++draw) {
    counts.clear();
    for (std::int64_t i = 0; i < groups; ++i)
      for (const PooledSample& sample :
           all.groups[random.below(static_cast<std::uint64_t>(groups))])
        counts.add(sample);
    for (const auto& [name, value] : counts.metrics(ks))
      if (value) drawn[name].push_back(*value);
  }
  for (PooledMetric& metric : result.metrics)
    metric.interval = drawn[metric.name].empty() ? BootstrapInterval{metric.value, metric.value}
                                                 : bootstrap_interval(drawn[metric.name]);
  return result;
}

}  // namespace runner
