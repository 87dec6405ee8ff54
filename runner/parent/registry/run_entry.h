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

/// A value of a recipe or a metric, as runs are filtered and sorted by it: a number, or a text.
/// true, false, null and lists are texts as JSON writes them.
using RunValue = std::variant<double, std::string>;

/// "0.975", "model.lora".
std::string run_value_text(const RunValue& value);

/// A number as a table shows it: a whole one with all its digits, another with six: "29954048",
/// "0.975", "4e-09".
std::string shown_number(double value);

/// What the registry knows of a run, read from its folder.
struct RunEntry {
  std::string recipe;   ///< its name
  std::string status;   ///< of summary.json; "incomplete": its record is; "damaged": something
                        ///< cannot be read
  std::string started;  ///< as in summary.json
  double seconds = 0;   ///< of work, all attempts together; 0: unknown
  std::string device = {};
  bool smoke = false;
  std::vector<std::string> tags = {};
  std::string problem = {};  ///< what of the record is damaged, in a sentence; empty: nothing
  std::vector<std::pair<std::string, RunValue>> settings =
      {};  ///< of the resolved recipe, by dotted key
  std::vector<std::pair<std::string, double>> metrics =
      {};  ///< by name, sorted; RunMetrics::values()
  std::string headline =
      {};  ///< the metric that tells most of it, "evaluate/top1"; empty: nothing was measured
  std::string source =
      {};  ///< of an evaluation, which has no weights: the folder of the run that it has evaluated
  std::string trained_by = {};  ///< as of RunMetrics
  std::string monitor = {};     ///< likewise; empty also where it has no value
};

/// Reads the record in `folder`, which has the mark of a run. Nothing in it makes this fail: what
/// cannot be read is left out, and `problem` says so.
RunEntry read_entry(const std::filesystem::path& folder);

/// The tags of the run in `folder`, sorted: tags.json, {"schema": 1, "tags": ["best"]}.
/// kDamagedRecord where that cannot be read; none where it is not there.
Result<std::vector<std::string>> read_tags(const std::filesystem::path& folder);

/// Adds tags to those of a run, and removes others; what the run has now. kUsage for a tag that is
/// no name, such as
/// "../x"; kRunBusy where another process is at the same. Throws WriteError. No other file of the
/// run is touched, so that it may be running.
Result<std::vector<std::string>> change_tags(const std::filesystem::path& folder,
                                             std::span<const std::string> added,
                                             std::span<const std::string> removed,
                                             Storage& storage = disk());

}  // namespace runner
