#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/config/difference.h"
#include "runner/parent/registry/run_details.h"

namespace runner {

/// In what two runs differ.
struct RunDifference {
  struct Metric {
    std::string node, name;
    std::optional<double> before, after;
  };
  std::string before, after;  ///< the folders
  std::vector<Difference> recipe, environment;
  std::vector<Metric> metrics;
};

RunDifference difference_of(const RunDetails& before, const RunDetails& after);
/// Three tables; what does not differ is said so.
std::string difference_text(const RunDifference& difference);
nlohmann::ordered_json to_json(const RunDifference& difference);

}  // namespace runner
