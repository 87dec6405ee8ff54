#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A value of a recipe or a metric, used to filter and sort runs: a number or a string. true,
/// false, null and lists are strings in JSON syntax.
using RunValue = std::variant<double, std::string>;

/// Formats a value: "0.975", "model.lora".
std::string run_value_text(const RunValue& value);

/// Formats a number for a table: whole numbers in full, others with six significant digits:
/// "29954048", "0.975", "4e-09".
std::string shown_number(double value);

/// What the registry knows about a run, read from its folder.
struct RunEntry {
  std::string recipe;   ///< the name of the recipe
  std::string status;   ///< from summary.json; "incomplete" if the record is incomplete, "damaged"
                        ///< if part of it cannot be read
  std::string started;  ///< as in summary.json
  double seconds = 0;   ///< working time of all attempts; 0 if unknown
  std::string device = {};
  bool smoke = false;
  std::vector<std::string> tags = {};
  std::string problem = {};  ///< a sentence about damage to the record; empty if there is none
  /// Options of the resolved recipe, by dotted key.
  std::vector<std::pair<std::string, RunValue>> settings = {};
  /// Metrics sorted by name: RunMetrics::values().
  std::vector<std::pair<std::string, double>> metrics = {};
  /// The most important metric, "evaluate/top1"; empty if nothing was measured.
  std::string headline = {};
  /// For an evaluation, which has no weights: the folder of the evaluated run.
  std::string source = {};
  std::string trained_by = {};  ///< as in RunMetrics
  std::string monitor = {};     ///< as in RunMetrics; also empty if it has no value

  double headline_value() const;  ///< value of the most important metric; NaN if nothing was
                                  ///< measured
  friend bool operator==(const RunEntry&, const RunEntry&) = default;
};

/// Reads the record in `folder`, which has the mark of a run. Never fails: unreadable parts are
/// left out, and `problem` reports them.
RunEntry read_entry(const std::filesystem::path& folder);

/// Reads the tags of the run in `folder`, sorted, from tags.json: {"schema": 1, "tags": ["best"]}.
/// Returns no tags if the file does not exist, kDamagedRecord if it cannot be read.
Result<std::vector<std::string>> read_tags(const std::filesystem::path& folder);

/// Adds tags to a run and removes others; returns the resulting tags. kUsage for an invalid tag
/// name, such as "../x"; kRunBusy if another process is changing the tags at the same time. Throws
/// WriteError. Does not touch any other file of the run, so the run may be in progress.
Result<std::vector<std::string>> change_tags(const std::filesystem::path& folder,
                                             std::span<const std::string> added,
                                             std::span<const std::string> removed,
                                             Storage& storage = disk());

}  // namespace runner
