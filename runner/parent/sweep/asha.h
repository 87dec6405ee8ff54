#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace runner {

/// `sweep.asha`: when trials are compared while they run.
struct AshaOptions {
  std::string metric;                ///< its name or "node:name"; of a loss or error the smaller is better
  std::int64_t first = 1;            ///< values of it at the first rung
  std::int64_t factor = 3;           ///< of values from one rung to the next, and of trials that go on
  std::optional<std::int64_t> last;  ///< values at which the last may be; nullopt: any number

  friend bool operator==(const AshaOptions&, const AshaOptions&) = default;
};

/// A value of the metric at a rung, from 0.
struct RungValue {
  std::uint64_t trial;
  std::size_t rung;
  double value;
};

/// Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020) in the
/// variant that stops trials: of all that have reached a rung so far, the best of every `factor` go on, at least one.
/// Nobody is waited for, so what is decided follows from the values in the order in which they come, and from nothing
/// else.
class Asha {
 public:
  Asha(const AshaOptions& options, bool is_smaller_better) : options_(options), is_smaller_better_(is_smaller_better) {}

  /// The rung at which a trial is with so many values of the metric; nullopt: between two.
  std::optional<std::size_t> rung_at(std::int64_t values) const;
  /// Whether the trial that has come to that rung with that value is to stop. NaN is worse than anything.
  bool stops(const RungValue& reached);

 private:
  const AshaOptions options_;
  const bool is_smaller_better_;
  std::map<std::size_t, std::vector<double>> values_;  // by rung
};

}  // namespace runner
