#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/parent/report/prediction_table.h"

namespace runner {

/// A row of one of several tables.
struct PooledRow {
  const PredictionTable* table = nullptr;
  const std::vector<std::string>* fields = nullptr;

  const std::string& operator[](std::size_t column) const { return (*fields)[column]; }
};

/// Metrics over samples, computed quickly enough for many bootstrap draws.
class PooledMeasure {
 public:
  /// Names and values in a fixed order; nullopt: undefined.
  using Metrics = std::vector<std::pair<std::string, std::optional<double>>>;

  virtual ~PooledMeasure() = default;
  /// Returns the metrics if sample i occurs `times[i]` times; the sum is positive.
  virtual Metrics metrics(const std::vector<std::uint32_t>& times) const = 0;
};

/// The mean of the values that are defined.
class DefinedMean {
 public:
  void add(const std::optional<double>& value) {
    sum_ += value.value_or(0);
    count_ += value ? 1 : 0;
  }
  std::optional<double> value() const {
    return count_ > 0 ? std::optional(sum_ / count_) : std::nullopt;
  }

 private:
  double sum_ = 0, count_ = 0;
};

/// Each returns the metrics of pooled_metrics() for one kind of table. There must be at least one
/// row.
std::unique_ptr<PooledMeasure> measure_classes(std::span<const PooledRow> rows,
                                               std::vector<std::size_t> ks);
std::unique_ptr<PooledMeasure> measure_labels(std::span<const PooledRow> rows);
std::unique_ptr<PooledMeasure> measure_targets(std::span<const PooledRow> rows);

}  // namespace runner
