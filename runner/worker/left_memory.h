#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/stage.h"

namespace runner {

/// The outcome of a dry run for one node.
struct DryNode {
  enum class State {
    kUnknown,  ///< something needed for the plan does not exist yet, or the stage rejects its
               ///< options or inputs
    kReused,   ///< another run's results are reused
    kRuns,
  };
  std::string node;
  State state = State::kUnknown;
  std::string why = {};  ///< why the node runs although a similar one has finished, which run it is
                         ///< reused from, or why it was rejected
  std::optional<MemoryPlan> plan = {};
  std::optional<Certificate> certificate = {};

  /// For a node that was cheap enough to simply run: its complete results.
  struct Results {
    Outputs outputs;
    std::vector<std::string> said;
    std::function<std::string()> division = {};  ///< the division of its samples; empty if none
  };
  std::optional<Results> done = {};
};

/// Returns the log line for a node: "is reused from /a/run", or "runs; needs 1.2 GiB of 8.0 GiB
/// (memory.budget)".
std::string log_text(const DryNode& node);

/// Returns the plan that needs the most memory; null if there is none.
const MemoryPlan* largest_plan(const std::vector<DryNode>& nodes);

/// Returns {"plans": […], "certificates": […], "reuse": [{"node", "state", "why"}]}, as sent to
/// retort.
nlohmann::ordered_json to_json(const std::vector<DryNode>& nodes);

/// Distributes the memory that a run's plans leave free among the artifacts that could use it as a
/// cache (Keeper::could_keep()), and adds it to the plans. For a run on a GPU, the plans do not
/// cover host memory, so each artifact gets as much as it could use.
class LeftMemory {
 public:
  /// `cache` and `build` become part of every Allowance.
  explicit LeftMemory(std::filesystem::path cache = {}, std::string build = {})
      : cache_(std::move(cache)), build_(std::move(build)) {}

  /// Adds the artifacts that node `index` has output, or their stand-ins.
  void add(std::size_t index, const Outputs& outputs);
  /// Distributes the memory in proportion to what each artifact could cache. Must be called once
  /// all nodes that can be planned have been planned.
  void share(std::vector<DryNode>& planned, std::string_view device);
  /// Adds the distributed memory to the plan of a node that could not be planned before. Reclaims
  /// anything that does not fit alongside that plan.
  void count_in(MemoryPlan& plan);
  /// Gives the recreated artifacts of node `index` their shares again.
  void renew(std::size_t index, const Outputs& outputs);
  /// Returns "550.0 MiB of the 812.0 MiB that this stage could use may be cached in memory", and
  /// describes what is cached elsewhere; empty if node `index` could cache nothing.
  std::vector<std::string> text(std::size_t index) const;

 private:
  struct Share {
    std::size_t node;
    std::string port;
    std::weak_ptr<const Artifact> artifact;
    std::int64_t wanted = 0, given = 0;
  };
  std::int64_t given() const;
  void give(std::int64_t bytes);
  void allow(const Share& share) const;

  std::filesystem::path cache_;
  std::string build_;
  std::vector<Share> shares_;
  bool is_planned_for_ = false;  // the plans include the distributed memory
};

}  // namespace runner
