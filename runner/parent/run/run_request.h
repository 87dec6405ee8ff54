#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "runner/parent/run/run.h"

namespace runner {

/// The request by which a worker runs the graph of `request` (protocol.md). Without a rank, and
/// without what is known only once a run has begun.
nlohmann::ordered_json run_request(const RunRequest& request);

}  // namespace runner
