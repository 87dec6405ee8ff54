#pragma once

#include <filesystem>
#include <string>

#include "runner/parent/config/compose.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The MLflow server to which runs are sent. Its token, user name and password stay in the
/// environment, where retort-tracker reads them.
struct MlflowTarget {
  std::string server;  ///< its address
  /// At most one is set; neither: MLflow's experiment "Default".
  std::string experiment_name = {}, experiment_id = {};
  std::filesystem::path tracker = {};  ///< the program that sends the runs
};

/// Returns the target named by MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and
/// MLFLOW_EXPERIMENT_ID, as in MLflow. Fails with kNoTracker, or kWorkerMissing if retort-tracker
/// is missing.
Result<MlflowTarget> mlflow_target(const Environment& environment,
                                   const std::filesystem::path& own_executable);

/// Returns an error unless `address` is a server's address: http: or https:, without a user, query
/// or fragment. `what` says where it comes from, such as "MLFLOW_TRACKING_URI".
Diagnostics refused_mlflow_address(const std::string& address, const std::string& what);

}  // namespace runner
