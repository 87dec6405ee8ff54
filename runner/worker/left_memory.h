#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/worker/dry_run.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/stage.h"

namespace runner {

/// Shares what the plans of a run leave of the memory among the artifacts that could keep something in it
/// (Keeper::could_keep()), and counts it in the plans. Where a run is planned for a GPU, plans say nothing of the
/// host's memory, and each gets what it asks for.
class LeftMemory {
 public:
  /// `cache`, `build`: of every Allowance.
  explicit LeftMemory(std::filesystem::path cache = {}, std::string build = {})
      : cache_(std::move(cache)), build_(std::move(build)) {}

  /// Node `index` has put out `outputs`, or is going to.
  void add(std::size_t index, const Outputs& outputs);
  /// Shares it by what each could keep, once all nodes are planned that can be.
  void share(std::vector<DryNode>& planned, std::string_view device);
  /// Counts it in the plan of a node that could not be planned before. What does not fit beside it is taken back.
  void count_in(MemoryPlan& plan);
  /// What was shared to artifacts of node `index` that have been put out anew since.
  void renew(std::size_t index, const Outputs& outputs);
  /// "550.0 MiB of the 812.0 MiB that it could use may be kept in memory", and what is kept elsewhere; none where node
  /// `index` could keep nothing.
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
