#include "runner/parent/report/paired_predictions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/parent/report/bootstrap.h"
#include "runner/parent/report/table_text.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kLargestPredictions = std::size_t{1} << 30;
constexpr const char* kPredictions = "predictions.csv";

/// Returns the index of the column with one of these names.
std::size_t column(const std::vector<std::string>& head, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = std::ranges::find(head, name);
    if (found != head.end()) return static_cast<std::size_t>(found - head.begin());
  }
  throw std::runtime_error("it has no column '" + std::string(*names.begin()) + "'");
}

/// Parses predictions.csv. Throws std::runtime_error if it is not valid.
std::vector<RecordedPrediction> predictions_from(std::string_view text) {
  std::vector<RecordedPrediction> all;
  auto row = take_csv_line(text);
  if (!row) throw std::runtime_error("it is empty");
  const std::vector<std::string> head = *std::move(row);
  const std::size_t name = column(head, {"name"}), label = column(head, {"label", "grade"});
  const std::size_t predicted = column(head, {"predicted", "prediction"});
  for (std::size_t number = 2; (row = take_csv_line(text)); ++number) {
    if (row->size() != head.size())
      throw std::runtime_error("its row " + std::to_string(number) + " has " +
                               std::to_string(row->size()) + " fields, not " +
                               std::to_string(head.size()));
    all.push_back({(*row)[name], (*row)[label], (*row)[label] == (*row)[predicted]});
  }
  std::ranges::stable_sort(all, {}, &RecordedPrediction::name);
  return all;
}

}  // namespace

Result<std::vector<RecordedPrediction>> read_predictions(const std::filesystem::path& folder,
                                                         const std::string& node) {
  const std::filesystem::path path = RunLayout(folder).node(node).folder() / kPredictions;
  const auto text = real_file_system().read(path, kLargestPredictions);
  if (!text) {
    return Diagnostic{ErrorCode::kNoResults,
                      {},
                      "",
                      "there is no '" + path.string() + "', so the run cannot be paired",
                      "evaluate it with csv: true, the default for evaluations with classes"};
  }
  try {
    return predictions_from(*text);
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' cannot be used: " + error.what(),
                      "evaluate the run again with `retort evaluate " + folder.string() + "`"};
  }
}

namespace {

/// A sample in the form needed by the bootstrap.
struct PairedSample {
  std::uint32_t label;  ///< the label's number
  std::int8_t gain;     ///< 1: only `run` is right; -1: only `base`
};

/// The probability of at most `heads` heads in `count` tosses, and of exactly `heads`.
struct Tosses {
  double at_most, exactly;
};

Tosses tosses(std::int64_t count, std::int64_t heads) {
  const auto n = static_cast<double>(count), k = static_cast<double>(heads);
  const double exactly = std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                                  n * std::log(2.0));
  // `heads` is at most half of `count`, so each term is smaller than the previous one, by an
  // increasing factor.
  double term = exactly, sum = exactly;
  for (double i = k; i > 0 && term > sum * 1e-17; --i) {
    term *= i / (n - i + 1);
    sum += term;
  }
  return {sum, exactly};
}

/// Sums the gains of a set of samples by class.
class Gains {
 public:
  explicit Gains(std::size_t classes) : counts_(classes), sums_(classes) {}
  void clear() {
    std::ranges::fill(counts_, 0);
    std::ranges::fill(sums_, 0);
  }
  void add(const PairedSample& sample) {
    ++counts_[sample.label];
    sums_[sample.label] += sample.gain;
  }
  double accuracy() const {
    std::int64_t sum = 0, count = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sum += sums_[i];
      count += counts_[i];
    }
    return static_cast<double>(sum) / static_cast<double>(count);
  }
  /// Returns the mean over the classes that have samples.
  double mean_per_class() const {
    double sum = 0;
    std::int64_t classes = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (counts_[i] == 0) continue;
      sum += static_cast<double>(sums_[i]) / static_cast<double>(counts_[i]);
      ++classes;
    }
    return sum / static_cast<double>(classes);
  }

 private:
  std::vector<std::int64_t> counts_, sums_;
};

void take_interval(std::vector<double>& draws, MetricGain& gain) {
  const BootstrapInterval interval = bootstrap_interval(draws);
  gain.low = interval.low;
  gain.high = interval.high;
}

Diagnostic other_samples(const std::string& run, const std::string& base, const std::string& how) {
  return {ErrorCode::kOptionConflict,
          {},
          "",
          "'" + run + "' was evaluated on different samples than '" + base + "': " + how,
          "evaluate both on the same data with the same split; `retort evaluate RUN data.root=…` "
          "does that with the trained weights"};
}

std::optional<Diagnostic> sample_mismatch(const std::string& run,
                                          const std::vector<RecordedPrediction>& mine,
                                          const std::string& base,
                                          const std::vector<RecordedPrediction>& others) {
  for (std::size_t i = 0; i < std::min(mine.size(), others.size()); ++i) {
    if (mine[i].name != others[i].name)
      return other_samples(
          run, base, "'" + std::min(mine[i].name, others[i].name) + "' is in only one of them");
    if (mine[i].label != others[i].label)
      return other_samples(run, base,
                           "'" + mine[i].name + "' is labeled '" + mine[i].label +
                               "' in one and '" + others[i].label + "' in the other");
  }
  if (mine.size() == others.size()) return std::nullopt;
  return other_samples(
      run, base,
      "there are " + std::to_string(mine.size()) + " and " + std::to_string(others.size()));
}

std::string signed_points(double share) {
  return (share < 0 ? "" : "+") + decimal(100 * share, 2) + "%";
}
std::string interval_text(const MetricGain& gain) {
  return signed_points(gain.low) + " to " + signed_points(gain.high);
}

std::string probability_text(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2g", value);
  return text.data();
}

nlohmann::ordered_json gain_json(const MetricGain& gain) {
  return {{"difference", gain.value}, {"interval", {gain.low, gain.high}}};
}

}  // namespace

PairedClassifiers compare_classifiers(std::span<const RecordedPrediction> run,
                                      std::span<const RecordedPrediction> base,
                                      std::uint64_t seed) {
  PairedClassifiers result{
      .run = {}, .base = {}, .accuracy = {}, .mean_per_class = MetricGain{}, .seed = seed};
  std::map<std::string, std::uint32_t> numbers;
  std::vector<PairedSample> samples;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const auto label =
        numbers.emplace(run[i].label, static_cast<std::uint32_t>(numbers.size())).first->second;
    const int gain = static_cast<int>(run[i].is_right) - static_cast<int>(base[i].is_right);
    ++(gain > 0 ? result.better : gain < 0 ? result.worse : result.equal);
    samples.push_back({label, static_cast<std::int8_t>(gain)});
  }
  const Tosses by_chance =
      tosses(result.better + result.worse, std::min(result.better, result.worse));
  result.p_value = std::min(1.0, 2 * by_chance.at_most);
  result.mid_p = std::min(1.0, 2 * by_chance.at_most - by_chance.exactly);

  Gains gains(numbers.size());
  for (const PairedSample& sample : samples) gains.add(sample);
  result.accuracy.value = gains.accuracy();
  result.mean_per_class->value = gains.mean_per_class();
  const auto size = std::ssize(samples);
  result.draws = bootstrap_draws(size);
  DrawnNumbers drawn(seed);
  std::vector<double> accuracies, means;
  for (std::int64_t draw = 0; draw < result.draws; ++draw) {
    gains.clear();
    for (std::int64_t i = 0; i < size; ++i)
      gains.add(samples[drawn.below(static_cast<std::uint64_t>(size))]);
    accuracies.push_back(gains.accuracy());
    means.push_back(gains.mean_per_class());
  }
  take_interval(accuracies, result.accuracy);
  take_interval(means, *result.mean_per_class);
  return result;
}

Result<std::vector<PairedClassifiers>> paired_classifiers(const Comparison& comparison,
                                                          std::uint64_t seed) {
  const bool has_classes = !comparison.rows.empty();
  const auto& rows = has_classes ? comparison.rows : comparison.multi_label;
  std::vector<std::vector<RecordedPrediction>> all;
  Diagnostics errors;
  for (const Comparison::Row& row : rows) {
    auto predictions = read_predictions(row.folder, row.evaluation.node);
    if (predictions && !predictions->empty()) {
      all.push_back(*std::move(predictions));
    } else if (predictions) {
      errors.push_back({ErrorCode::kNoResults,
                        {},
                        "",
                        "'" + row.title + "' was evaluated on no samples",
                        "leave it out"});
    } else {
      errors.insert(errors.end(), predictions.errors().begin(), predictions.errors().end());
    }
  }
  if (!errors.empty()) return errors;
  const std::string& base = rows.front().title;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (auto error = sample_mismatch(rows[i].title, all[i], base, all.front()))
      errors.push_back(*std::move(error));
  if (!errors.empty()) return errors;
  std::vector<PairedClassifiers> pairs;
  for (std::size_t i = 1; i < all.size(); ++i) {
    pairs.push_back(compare_classifiers(all[i], all.front(), seed));
    pairs.back().run = rows[i].title;
    pairs.back().base = base;
    if (!has_classes) pairs.back().mean_per_class.reset();
  }
  return pairs;
}

std::string paired_text(const std::vector<PairedClassifiers>& pairs, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {{"on the same samples"}};
  const auto add = [](std::vector<std::string>& row, const std::vector<std::string>& cells) {
    row.insert(row.end(), cells.begin(), cells.end());
  };
  const bool has_classes = !pairs.empty() && pairs.front().mean_per_class;
  add(rows.front(), {has_classes ? "accuracy" : "subset accuracy", "95% interval"});
  if (has_classes) add(rows.front(), {"per class", "95% interval"});
  add(rows.front(), {"McNemar's p", "mid-p", "better", "worse", "equal"});
  for (const PairedClassifiers& one : pairs) {
    rows.push_back({shortened(one.run, 60) + " against " + shortened(one.base, 60),
                    signed_points(one.accuracy.value), interval_text(one.accuracy)});
    if (one.mean_per_class)
      add(rows.back(),
          {signed_points(one.mean_per_class->value), interval_text(*one.mean_per_class)});
    add(rows.back(),
        {probability_text(one.p_value), probability_text(one.mid_p), std::to_string(one.better),
         std::to_string(one.worse), std::to_string(one.equal)});
  }
  return table_text(rows, style.table_width());
}

nlohmann::ordered_json to_json(const std::vector<PairedClassifiers>& pairs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PairedClassifiers& one : pairs) {
    nlohmann::ordered_json pair = {{"run", one.run},       {"base", one.base},
                                   {"better", one.better}, {"worse", one.worse},
                                   {"equal", one.equal},   {"p_value", one.p_value},
                                   {"mid_p", one.mid_p}};
    pair[one.mean_per_class ? "accuracy" : "subset_accuracy"] = gain_json(one.accuracy);
    if (one.mean_per_class) pair["mean_per_class"] = gain_json(*one.mean_per_class);
    pair["draws"] = one.draws;
    pair["seed"] = one.seed;
    json.push_back(std::move(pair));
  }
  return json;
}

}  // namespace runner
