#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/meeting.h"
#include "runner/shared/stage/run_context.h"
#include "stages/ranks/rank_group.h"

namespace stages {

/// Returns the properties that must be the same on all ranks of a run: the recipe, this build,
/// LibTorch, the CPU kernels in use and, if Python hosts the worker, its packages. `versions` is
/// the result of all_versions(). Secrets are hidden.
nlohmann::ordered_json traits_of(const runner::Graph& graph,
                                 const nlohmann::ordered_json& versions);

/// Returns how the traits of a rank differ from those of rank 0, one line per difference; at most
/// ten.
std::vector<std::string> differences(const nlohmann::ordered_json& first,
                                     const nlohmann::ordered_json& own);

/// Waits until all ranks have joined, and connects them. Throws runner::StageError (kNoMeeting) if
/// a rank is missing, joined twice, belongs to another job, or has different traits from rank 0;
/// the message names the rank. Throws Canceled soon after `is_canceled` returns true. `timeout`
/// applies to the group's calls.
std::unique_ptr<RankGroup> meet_ranks(
    const runner::RankOfRun& own, const runner::Meeting& meeting,
    const nlohmann::ordered_json& traits,
    const std::function<bool()>& is_canceled = [] { return false; },
    std::chrono::seconds timeout = kCollectiveTimeout);

}  // namespace stages
