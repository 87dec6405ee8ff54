#pragma once

#include <memory>
#include <span>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/stage.h"

namespace runner {

/// Creates the stage of `node`; its kind must be in `kinds`. Returns all errors in its options at
/// once.
Result<std::unique_ptr<Stage>> create_stage(const Node& node,
                                            std::span<const StageKind* const> kinds);

}  // namespace runner
