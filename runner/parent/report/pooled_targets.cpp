#include <cmath>

#include "runner/parent/report/pooled_measure.h"

namespace runner {
namespace {

/// The errors for one target, and over all targets if there are several.
struct PooledErrors {
  double mae = 0, rmse = 0;
  std::optional<double> r2;

  void add_to(PooledMeasure::Metrics& all, const std::string& suffix) const {
    all.emplace_back("mae" + suffix, mae);
    all.emplace_back("rmse" + suffix, rmse);
    all.emplace_back("r2" + suffix, r2);
  }
};

/// The errors of predicted values, as defined in stages/artifact/targets.h.
class PooledTargets final : public PooledMeasure {
 public:
  explicit PooledTargets(std::span<const PooledRow> rows) {
    for (const PredictionTable::Target& target : rows.front().table->targets)
      targets_.push_back({target.name, {}});
    for (const PooledRow& row : rows)
      for (std::size_t i = 0; i < targets_.size(); ++i) {
        const PredictionTable::Target& place = row.table->targets[i];
        targets_[i].pairs.push_back(
            {number_of_field(row[place.truth]), number_of_field(row[place.predicted])});
      }
  }

  Metrics metrics(const std::vector<std::uint32_t>& times) const override {
    PooledErrors mean;
    DefinedMean explained;
    Metrics own;
    for (const Target& target : targets_) {
      const PooledErrors errors = target.errors(times);
      mean.mae += errors.mae / static_cast<double>(targets_.size());
      mean.rmse += errors.rmse / static_cast<double>(targets_.size());
      explained.add(errors.r2);
      if (targets_.size() > 1) errors.add_to(own, "/" + target.name);
    }
    mean.r2 = explained.value();
    Metrics all;
    mean.add_to(all, "");
    all.insert(all.end(), own.begin(), own.end());
    return all;
  }

 private:
  struct Pair {
    double truth = 0, predicted = 0;
  };
  struct Target {
    std::string name;
    std::vector<Pair> pairs;

    PooledErrors errors(const std::vector<std::uint32_t>& times) const {
      double count = 0, sum = 0, absolute = 0, squares = 0, variation = 0;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const double weight = times[i], error = pairs[i].truth - pairs[i].predicted;
        count += weight;
        sum += weight * pairs[i].truth;
        absolute += weight * std::abs(error);
        squares += weight * error * error;
      }
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const double deviation = pairs[i].truth - sum / count;
        variation += times[i] * deviation * deviation;
      }
      PooledErrors result{.mae = absolute / count, .rmse = std::sqrt(squares / count), .r2 = {}};
      if (variation > 0) result.r2 = 1 - squares / variation;
      return result;
    }
  };

  std::vector<Target> targets_;
};

}  // namespace

std::unique_ptr<PooledMeasure> measure_targets(std::span<const PooledRow> rows) {
  return std::make_unique<PooledTargets>(rows);
}

}  // namespace runner
