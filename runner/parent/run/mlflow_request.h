#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/run/mlflow_target.h"

namespace runner {

/// A run as MLflow should show it.
struct MlflowSubject {
  std::filesystem::path folder;
  nlohmann::ordered_json recipe;                           ///< resolved, without secrets
  std::vector<std::pair<std::string, std::string>> nodes;  ///< id and kind of each
  double began = 0;                                        ///< seconds since 1970
};

/// How persistently retort-tracker tries to send the remaining data after the end of a run.
struct MlflowPatience {
  int tries = 1;
  int limit_seconds = 5;  ///< 0: no limits
  /// How long it waits for each response; a quarter of that if the previous request got none.
  int answer_milliseconds = 2000;
};

/// Returns the first line for retort-tracker (runner/tracker/tracker.h): the parameters are the
/// recipe's options by key, such as "train.epochs", and metrics have Retort's names, preceded by
/// the node if several nodes of the graph belong to the same family. A trial is nested in its
/// sweep's run.
nlohmann::ordered_json mlflow_request(const MlflowTarget& target, const MlflowSubject& subject,
                                      const MlflowPatience& patience = {});

/// Like mlflow_request(), for the run of the sweep in `folder`.
nlohmann::ordered_json mlflow_sweep_request(const MlflowTarget& target,
                                            const std::filesystem::path& folder,
                                            const std::string& recipe, double began,
                                            const MlflowPatience& patience = {});

/// Returns the second line: the run ended at `time` with `status`, MLflow's name for it.
nlohmann::ordered_json mlflow_end(const std::string& status, double time);

}  // namespace runner
