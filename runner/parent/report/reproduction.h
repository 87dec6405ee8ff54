#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// How a run compares with the run that it should reproduce.
enum class Verdict {
  kIdentical,        ///< every metric, weight and result has the same bits
  kWithinTolerance,  ///< every metric is that close to the record's; some bits differ
  kDifferent,
};

/// "identical", "within_tolerance", "different".
std::string_view name(Verdict verdict);

/// A metric that differs; nullopt if one of the runs has not measured it.
struct MetricDifference {
  std::string node, metric;
  std::int64_t step = 0;
  std::optional<double> before, now;
  double relative = 0;  ///< difference relative to the larger of both; infinite if only one exists
                        ///< or is finite
};

/// A run compared with the one whose record it was started from.
struct Reproduction {
  Verdict verdict = Verdict::kIdentical;
  double tolerance = 0;                     ///< allowed relative difference of a metric
  std::size_t metrics = 0, files = 0;       ///< compared
  std::optional<MetricDifference> first;    ///< in the order in which they were measured
  std::optional<MetricDifference> largest;  ///< by its relative size; the first of equals
  std::vector<std::string> other_files;     ///< with other bytes, or missing in one:
                                            ///< "train/checkpoints/best/model.safetensors"
  std::vector<std::string> other_plans;     ///< nodes whose steps were computed in another way
};

/// Compares the run in `now` with that in `before`: the metrics of every step except those of
/// memory, the weights of the best and of the latest checkpoint of each training, and the files of
/// every other node, except plans and times.
Reproduction compare_reproduction(const std::filesystem::path& before,
                                  const std::filesystem::path& now, double tolerance);

/// A few lines: the verdict, the first difference and the largest one, the files that differ.
std::string reproduction_text(const Reproduction& found);
/// {"verdict", "tolerance", "metrics", "files", "first", "largest", "other_files", "other_plans"}
nlohmann::ordered_json to_json(const Reproduction& found);

}  // namespace runner
