#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/certificate.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/stage.h"

namespace runner {

/// The outcome of a dry run for one node.
struct DryNode {
  enum class State {
    kUnknown,  ///< what it needs to be planned is not there before the run, or it refuses its options or inputs
    kReused,   ///< another run's results are taken
    kRuns,
  };
  std::string node;
  State state = State::kUnknown;
  std::string why =
      {};  ///< it runs although one like it has finished before; from which run it is taken; what it refuses
  std::optional<MemoryPlan> plan = {};
  std::optional<Certificate> certificate = {};

  /// Of a node that was cheap enough to be run: all that it did.
  struct Results {
    Outputs outputs;
    std::vector<std::string> said;
    std::function<std::string()> division = {};  ///< of what it has divided; empty: nothing
  };
  std::optional<Results> done = {};
};

/// "is reused from /a/run", "runs; needs 1.2 GiB of 8.0 GiB (memory.budget)": what the log says of a node.
std::string log_text(const DryNode& node);

/// The plan that needs the most; null where there is none.
const MemoryPlan* largest_plan(const std::vector<DryNode>& nodes);

/// {"plans": […], "certificates": […], "reuse": [{"node", "state", "why"}]}, as retort is told it.
nlohmann::ordered_json to_json(const std::vector<DryNode>& nodes);

}  // namespace runner
