#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/cli/arguments.h"
#include "runner/error/result.h"
#include "runner/value/value.h"

namespace runner {

/// What a worker is asked about a network that a recorded run has trained.
struct TrainedRequest {
  nlohmann::ordered_json json;  ///< {"protocol", "request", "graph", "node", "checkpoints"}
  Value recipe;                 ///< for the places of what is wrong with an option
};

/// The request `name` about the training that the arguments run_folder, checkpoint and node choose; its graph has that
/// node and what it takes in besides data. `overrides` may change the device and the threads.
Result<TrainedRequest> trained_request(std::string_view name, const Arguments& arguments,
                                       const std::vector<std::string>& overrides);

/// The same errors with the places of their pointers.
Diagnostics placed(Diagnostics errors, const Value& recipe);

}  // namespace runner
