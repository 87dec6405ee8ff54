#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "runner/parent/report/pooled_measure.h"
#include "runner/parent/report/pooled_ranking.h"

namespace runner {
namespace {

/// A sample in the form needed by the bootstrap.
struct PooledSample {
  std::uint32_t label = 0, predicted = 0;  // numbers of classes
  std::uint32_t rank = 0;                  // number of classes that rank above the label
  double loss = 0;                         // minus the logarithm of the label's probability
};

/// Returns the column with the probability of the label of `row`, if there is one.
std::optional<std::size_t> column_of_label(const PooledRow& row) {
  const PredictionTable& table = *row.table;
  if (table.label_probability || table.probabilities.empty()) return table.label_probability;
  const auto grade = std::ranges::find(table.grades, row[table.label]);
  if (grade == table.grades.end()) return std::nullopt;
  return table.probabilities[static_cast<std::size_t>(grade - table.grades.begin())];
}

/// Returns a ranking of the samples for each grade; empty if a table lacks their probabilities.
std::vector<PooledRanking> grade_rankings(std::span<const PooledRow> rows) {
  const std::vector<std::string>& grades = rows.front().table->grades;
  for (const PooledRow& row : rows)
    if (row.table->probabilities.empty() || row.table->grades != grades) return {};
  std::vector<PooledRanking> rankings;
  for (std::size_t grade = 0; grade < grades.size(); ++grade) {
    std::vector<PooledRanking::Scored> scored;
    for (const PooledRow& row : rows) {
      const double score = number_of_field(row[row.table->probabilities[grade]]);
      if (std::isnan(score)) return {};
      scored.push_back({score, row[row.table->label] == grades[grade]});
    }
    rankings.emplace_back(std::move(scored));
  }
  return rankings;
}

/// Counts over a set of samples, each with a weight.
struct ClassCounts {
  explicit ClassCounts(std::size_t classes, std::size_t ranks)
      : support(classes), predictions(classes), correct(classes), of_rank(ranks) {}

  void add(const PooledSample& sample, std::int64_t times) {
    samples += times;
    support[sample.label] += times;
    predictions[sample.predicted] += times;
    if (sample.label == sample.predicted) correct[sample.label] += times;
    if (sample.rank < of_rank.size()) of_rank[sample.rank] += times;
    const double apart = static_cast<double>(sample.label) - static_cast<double>(sample.predicted);
    squares += static_cast<double>(times) * apart * apart;
    distances += static_cast<double>(times) * std::abs(apart);
    losses += static_cast<double>(times) * sample.loss;
  }

  static double ratio(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
  double accuracy() const {
    return ratio(std::accumulate(correct.begin(), correct.end(), std::int64_t{0}), samples);
  }
  double top(std::size_t k) const {
    return ratio(std::accumulate(of_rank.begin(), of_rank.begin() + static_cast<std::ptrdiff_t>(k),
                                 std::int64_t{0}),
                 samples);
  }
  /// Cohen's kappa with quadratic weights: 1 - observed / expected squared distance of the grades.
  std::optional<double> kappa() const {
    double expected = 0;
    for (std::size_t a = 0; a < support.size(); ++a) {
      for (std::size_t b = 0; b < predictions.size(); ++b) {
        const double apart = static_cast<double>(a) - static_cast<double>(b);
        expected +=
            apart * apart * static_cast<double>(support[a]) * static_cast<double>(predictions[b]);
      }
    }
    if (expected == 0) return std::nullopt;
    return 1 - squares * static_cast<double>(samples) / expected;
  }

  std::vector<std::int64_t> support, predictions, correct, of_rank;
  std::int64_t samples = 0;
  double squares = 0, distances = 0;  // sums over the distances between label and prediction
  double losses = 0;
};

/// Precision, recall and F1 as a weighted mean over classes.
struct ClassMeans {
  double precision = 0, recall = 0, f1 = 0;

  void add(double its_precision, double its_recall, double its_f1, double weight) {
    precision += weight * its_precision;
    recall += weight * its_recall;
    f1 += weight * its_f1;
  }
  void add_to(PooledMeasure::Metrics& all, const std::string& prefix) const {
    all.emplace_back(prefix + "precision", precision);
    all.emplace_back(prefix + "recall", recall);
    all.emplace_back(prefix + "f1", f1);
  }
};

class PooledClasses final : public PooledMeasure {
 public:
  PooledClasses(std::span<const PooledRow> rows, std::vector<std::size_t> ks)
      : ks_(std::move(ks)), ranks_(rows.front().table->best.size()) {
    std::map<std::string, std::uint32_t> numbers;
    const auto number = [&](const std::string& name) {
      return numbers.emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second;
    };
    // Grades are numbered in their order, which kappa depends on.
    for (const std::string& grade : rows.front().table->grades) number(grade);
    has_grades_ = !numbers.empty();
    for (const PooledRow& row : rows) {
      const PredictionTable& table = *row.table;
      PooledSample sample{.label = number(row[table.label]),
                          .predicted = number(row[table.predicted])};
      const auto probability = column_of_label(row);
      sample.loss = probability ? -std::log(number_of_field(row[*probability])) : std::nan("");
      has_losses_ &= std::isfinite(sample.loss);
      while (sample.rank < table.best.size() && row[table.best[sample.rank]] != row[table.label])
        ++sample.rank;
      ranks_ = std::min(ranks_, table.best.size());
      samples_.push_back(sample);
    }
    classes_ = numbers.size();
    rankings_ = grade_rankings(rows);
  }

  Metrics metrics(const std::vector<std::uint32_t>& times) const override {
    ClassCounts counts(classes_, ranks_);
    for (std::size_t i = 0; i < samples_.size(); ++i)
      if (times[i] > 0) counts.add(samples_[i], times[i]);
    Metrics all = {{"top1", counts.accuracy()}};
    for (const std::size_t k : ks_)
      if (k > 1 && k <= ranks_) all.emplace_back("top" + std::to_string(k), counts.top(k));
    add_class_means(counts, all);
    if (has_grades_) {
      all.emplace_back("quadratic_kappa", counts.kappa());
      all.emplace_back("mean_absolute_error",
                       counts.distances / static_cast<double>(counts.samples));
    }
    if (has_losses_)
      all.emplace_back("log_loss", counts.losses / static_cast<double>(counts.samples));
    if (!rankings_.empty()) all.emplace_back("auc_macro", area(times));
    return all;
  }

 private:
  static void add_class_means(const ClassCounts& counts, Metrics& all) {
    ClassMeans macro, weighted;
    double recalls = 0;
    std::int64_t present = 0;
    for (std::size_t label = 0; label < counts.support.size(); ++label) {
      const std::int64_t correct = counts.correct[label], support = counts.support[label],
                         predicted = counts.predictions[label];
      const double precision = ClassCounts::ratio(correct, predicted),
                   recall = ClassCounts::ratio(correct, support),
                   f1 = ClassCounts::ratio(2 * correct, support + predicted);
      macro.add(precision, recall, f1, 1 / static_cast<double>(counts.support.size()));
      weighted.add(precision, recall, f1, ClassCounts::ratio(support, counts.samples));
      if (support == 0) continue;
      recalls += recall;
      ++present;
    }
    all.emplace_back("mean_per_class", recalls / static_cast<double>(present));
    macro.add_to(all, "macro_");
    weighted.add_to(all, "weighted_");
  }
  /// Returns the mean over the grades of the areas under their curves; nullopt if none is defined.
  std::optional<double> area(const std::vector<std::uint32_t>& times) const {
    DefinedMean mean;
    for (const PooledRanking& ranking : rankings_) mean.add(ranking.area(times));
    return mean.value();
  }

  std::vector<std::size_t> ks_;
  std::size_t ranks_, classes_ = 0;
  bool has_grades_ = false, has_losses_ = true;
  std::vector<PooledSample> samples_;
  std::vector<PooledRanking> rankings_;  // rankings by grade; empty without their probabilities
};

}  // namespace

std::unique_ptr<PooledMeasure> measure_classes(std::span<const PooledRow> rows,
                                               std::vector<std::size_t> ks) {
  return std::make_unique<PooledClasses>(rows, std::move(ks));
}

}  // namespace runner
