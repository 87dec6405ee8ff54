#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "runner/parent/config/provenance.h"
#include "runner/parent/record/node_state.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/text/terminal.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Everything in the record of a run, for text or JSON output.
struct RunDetails {
  struct Node {
    std::string id, status;  ///< from summary.json: waiting, running, finished; empty if unknown
    NodeState state;         ///< as read from the node's files
    double seconds = 0;
    std::int64_t peak_memory_bytes = 0;
  };
  struct Metric {
    std::string node, name;
    double value = 0;
    std::int64_t step = 0;
  };
  RecordedRun run;
  nlohmann::ordered_json summary, environment;  ///< objects; empty if they cannot be read
  Value recipe;
  std::vector<Node> nodes;
  std::vector<Metric> metrics;  ///< sorted by node and name; for validation metrics, the values
                                ///< for the kept weights
  std::vector<std::string> tags;
};

/// Reads the record of the run in `folder`. Fails with kNoRun or kDamagedRecord if there is nothing
/// to show. Other damaged files are left out and reported as warnings.
Result<RunDetails> read_details(const std::filesystem::path& folder, Sources& sources,
                                Diagnostics& warnings);

/// Formats the run for the user: an overview, its nodes, metrics and environment, and the resolved
/// recipe.
std::string details_text(const RunDetails& details, const TextStyle& style = {});
nlohmann::ordered_json to_json(const RunDetails& details);

/// Returns the environment as rows of dotted key and value, for a table.
std::vector<std::vector<std::string>> environment_rows(const RunDetails& details);

/// How two runs differ.
struct RunDifference {
  struct Metric {
    std::string node, name;
    std::optional<double> before, after;
  };
  std::string before, after;  ///< the folders of the two runs
  std::vector<Difference> recipe, environment;
  std::vector<Metric> metrics;
};

RunDifference difference_of(const RunDetails& before, const RunDetails& after);
/// Formats tables of differences in the recipe, the environment and the metrics; for each of these
/// without differences, prints a sentence instead.
std::string difference_text(const RunDifference& difference, const TextStyle& style = {});
nlohmann::ordered_json to_json(const RunDifference& difference);

}  // namespace runner
