#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "runner/parent/run/run.h"

namespace runner {

/// Returns the request for a worker to run the graph of `request` (protocol.md), without its rank
/// and without values that are known only once a run has begun.
nlohmann::ordered_json run_request(const RunRequest& request);

}  // namespace runner
