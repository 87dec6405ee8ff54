#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/record/protobuf_message.h"

namespace runner {

/// The options by which runs are compared, as shown by TensorBoard's hparams plugin: values by key,
/// such as {"train.epochs", "5"}. A value that is a number, true or false is sent with that type.
using Hparams = std::map<std::string, std::string>;

/// Returns the options that the user has overridden: those of `recipe` (resolved, without secrets)
/// that `origins` (origins_json()) attributes to an override, and groups chosen in `typed`, the
/// overrides as typed, such as "model=tiny". Leaves out options that do not concern the result,
/// such as run.dir.
Hparams overridden_options(const nlohmann::ordered_json& recipe,
                           const nlohmann::ordered_json& origins,
                           const std::vector<std::string>& typed);

/// Returns the options that were overridden when the run in `run` was started or resumed, according
/// to its record.
Hparams overridden_options(const std::filesystem::path& run, const nlohmann::ordered_json& recipe);

/// The options that the trials of a sweep vary, and the metrics with which TensorBoard compares
/// them.
struct HparamsExperiment {
  std::string name;
  std::vector<std::pair<std::string, std::vector<std::string>>> options;  ///< keys and all values
  /// For each metric, the node, which is the last folder of TensorBoard's run, and the recorded
  /// name.
  std::vector<std::pair<std::string, std::string>> metrics;
};

/// Return values of a summary (summary_value.h) in the format of
/// tensorboard/plugins/hparams/plugin_data.proto. A session is a run; its metrics are in the
/// subfolders of its folder. Times are in seconds since 1970.
ProtobufMessage experiment_value(const HparamsExperiment& experiment, double time);
ProtobufMessage session_start_value(const Hparams& hparams, double time);
ProtobufMessage session_end_value(bool is_finished, double time);

}  // namespace runner
