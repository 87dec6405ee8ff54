#pragma once

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

/// What has to be the same on all ranks of a run: the recipe, this build, LibTorch, the kernels
/// that update the weights and, where Python hosts the worker, its packages. `versions` is
/// all_versions(). Secrets are hidden.
nlohmann::ordered_json traits_of(const runner::Graph& graph,
                                 const nlohmann::ordered_json& versions);

/// How the traits of a rank differ from those of rank 0, one line for each that does; at most ten.
std::vector<std::string> differences(const nlohmann::ordered_json& first,
                                     const nlohmann::ordered_json& own);

/// Waits until all ranks have come to the meeting, and connects them. Throws runner::StageError,
/// kNoMeeting, which says which rank is missing, came twice, is of another job, or differs from
/// rank 0 in its traits. Throws Cancelled soon after `is_cancelled` returns true.
std::unique_ptr<RankGroup> meet_ranks(
    const runner::RankOfRun& own, const runner::Meeting& meeting,
    const nlohmann::ordered_json& traits,
    const std::function<bool()>& is_cancelled = [] { return false; });

}  // namespace stages
