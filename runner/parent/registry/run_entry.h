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

/// A value of a recipe or a metric, used to filter and sort runs: a number or a text. true, false,
/// null and lists are texts in JSON syntax.
using RunValue = std::variant<double, std::string>;

/// "0.975", "model.lora".
std::string run_value_text(const RunValue& value);

/// A number as a table shows it: whole numbers with all digits, others with six: "29954048",
/// "0.975", "4e-09".
std::string shown_number(double value);

/// What the registry knows about a run, read from its folder.
struct RunEntry {
  std::string recipe;   ///< its name
  std::string status;   ///< from summary.json; "incomplete": the record is; "damaged": something
                        ///< cannot be read
  std::string started;  ///< as in summary.json
  double seconds = 0;   ///< of work, all attempts together; 0: unknown
  std::string device = {};
  bool smoke = false;
  std::vector<std::string> tags = {};
  std::string problem = {};  ///< what in the record is damaged, in a sentence; empty: nothing
  std::vector<std::pair<std::string, RunValue>> settings =
      {};  ///< from the resolved recipe, by dotted key
  std::vector<std::pair<std::string, double>> metrics =
      {};  ///< by name, sorted; RunMetrics::values()
  std::string headline =
      {};  ///< its most important metric, "evaluate/top1"; empty: nothing was measured
  std::string source =
      {};  ///< for an evaluation, which has no weights: the folder of the evaluated run
  std::string trained_by = {};  ///< as in RunMetrics
  std::string monitor = {};     ///< as in RunMetrics; also empty if it has no value
};

/// Reads the record in `folder`, which has the mark of a run. Never fails: what cannot be read is
/// left out, and `problem` says so.
RunEntry read_entry(const std::filesystem::path& folder);

/// The tags of the run in `folder`, sorted: tags.json, {"schema": 1, "tags": ["best"]}.
/// kDamagedRecord if the file cannot be read; none if it does not exist.
Result<std::vector<std::string>> read_tags(const std::filesystem::path& folder);

/// Adds tags to a run and removes others; returns the run's tags afterwards. kUsage for an invalid
/// tag name, such as "../x"; kRunBusy if another process changes them at the same time. Throws
/// WriteError. Touches no other file of the run, so the run may be running.
Result<std::vector<std::string>> change_tags(const std::filesystem::path& folder,
                                             std::span<const std::string> added,
                                             std::span<const std::string> removed,
                                             Storage& storage = disk());

}  // namespace runner
