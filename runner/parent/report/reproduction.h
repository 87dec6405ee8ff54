#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// How a run compares with the run that it was meant to reproduce.
enum class Verdict {
  kIdentical,        ///< every metric, weight and result is bit-for-bit identical
  kWithinTolerance,  ///< every metric is within tolerance of the recorded one; some bits differ
  kDifferent,
};

/// Returns "identical", "within_tolerance" or "different".
std::string_view name(Verdict verdict);

/// A metric that differs; nullopt for a run that has not measured it.
struct MetricDifference {
  std::string node, metric;
  std::int64_t step = 0;
  std::optional<double> before, now;
  /// Difference relative to the larger of the two values; infinite if only one exists or is finite.
  double relative = 0;
};

/// The comparison of a run with the run from which it was started.
struct Reproduction {
  Verdict verdict = Verdict::kIdentical;
  double tolerance = 0;                     ///< allowed relative difference of a metric
  std::size_t metrics = 0, files = 0;       ///< number of compared metrics and files
  std::optional<MetricDifference> first;    ///< the first difference in the order of measurement
  std::optional<MetricDifference> largest;  ///< by relative size; the first if several are equal
  /// Files that differ, or that only one run has: "train/checkpoints/best/model.safetensors".
  std::vector<std::string> other_files;
  std::vector<std::string> other_plans;  ///< nodes with steps that were computed differently
};

/// Compares the run in `now` with the run in `before`: the metrics of every step except memory, the
/// weights of the best and latest checkpoints of each training stage, and the files of every other
/// node except plans and times.
Reproduction compare_reproduction(const std::filesystem::path& before,
                                  const std::filesystem::path& now, double tolerance);

/// Returns a few lines: the verdict, the first and the largest difference, and the files that
/// differ.
std::string reproduction_text(const Reproduction& found);
/// Returns {"verdict", "tolerance", "metrics", "files", "first", "largest", "other_files",
/// "other_plans"}.
nlohmann::ordered_json to_json(const Reproduction& found);

}  // namespace runner
