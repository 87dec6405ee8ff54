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
    kUnknown,  ///< what it needs to be planned is not there before the run, or it refuses its
               ///< options or inputs
    kReused,   ///< another run's results are taken
    kRuns,
  };
  std::string node;
  State state = State::kUnknown;
  std::string why = {};  ///< it runs although one like it has finished before; from which run it is
                         ///< taken; what it refuses
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

/// "is reused from /a/run", "runs; needs 1.2 GiB of 8.0 GiB (memory.budget)": what the log says of
/// a node.
std::string log_text(const DryNode& node);

/// The plan that needs the most; null where there is none.
const MemoryPlan* largest_plan(const std::vector<DryNode>& nodes);

/// {"plans": […], "certificates": […], "reuse": [{"node", "state", "why"}]}, as retort is told it.
nlohmann::ordered_json to_json(const std::vector<DryNode>& nodes);

/// Shares what the plans of a run leave of the memory among the artifacts that could keep something
/// in it (Keeper::could_keep()), and counts it in the plans. Where a run is planned for a GPU,
/// plans say nothing of the host's memory, and each gets what it asks for.
class LeftMemory {
 public:
  /// `cache`, `build`: of every Allowance.
  explicit LeftMemory(std::filesystem::path cache = {}, std::string build = {})
      : cache_(std::move(cache)), build_(std::move(build)) {}

  /// Node `index` has put out `outputs`, or is going to.
  void add(std::size_t index, const Outputs& outputs);
  /// Shares it by what each could keep, once all nodes are planned that can be.
  void share(std::vector<DryNode>& planned, std::string_view device);
  /// Counts it in the plan of a node that could not be planned before. What does not fit beside it
  /// is taken back.
  void count_in(MemoryPlan& plan);
  /// What was shared to artifacts of node `index` that have been put out anew since.
  void renew(std::size_t index, const Outputs& outputs);
  /// "550.0 MiB of the 812.0 MiB that it could use may be kept in memory", and what is kept
  /// elsewhere; none where node `index` could keep nothing.
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
  bool is_planned_for_ = false;  // the memory that is shared is what plans are about
};

}  // namespace runner
