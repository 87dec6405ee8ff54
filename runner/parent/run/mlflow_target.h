#pragma once

#include <filesystem>
#include <string>

#include "runner/parent/config/compose.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The MLflow server that runs are sent to. Its token, user and password stay in the environment,
/// where retort-tracker finds them.
struct MlflowTarget {
  std::string server;  ///< its address
  /// At most one is set; neither: MLflow's experiment "Default".
  std::string experiment_name = {}, experiment_id = {};
  std::filesystem::path tracker = {};  ///< the program that sends
};

/// Returns the target that MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and MLFLOW_EXPERIMENT_ID
/// name, as in MLflow. Fails with kNoTracker, or kWorkerMissing if retort-tracker is missing.
Result<MlflowTarget> mlflow_target(const Environment& environment,
                                   const std::filesystem::path& own_executable);

/// Returns an error unless `address` is that of a server: http: or https:, without a user, a query
/// or a fragment. `what` names where it comes from, such as "MLFLOW_TRACKING_URI".
Diagnostics refused_mlflow_address(const std::string& address, const std::string& what);

}  // namespace runner
