#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/certificate.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_shelf.h"
#include "runner/shared/stage/run_context.h"

namespace runner {

/// What a dry run looks for.
struct DryRunOptions {
  /// The name of a device that is planned for and is not here, "NVIDIA L4", whose kind NodeFacts::device says; empty:
  /// it is that device itself.
  std::string device_model = {};
  /// The bytes that may be used where the recipe does not say it, and who says so; nullopt: what the device has.
  std::optional<NamedBytes> budget = {};
  /// Whether other ways of computing the same are to be looked at; a plan that does not fit names them always.
  bool wants_alternatives = false;
  /// Whether the ways of computing that the recipe asks for are compared with the whole batch, whether they fit or not.
  bool wants_certificate = false;
};

/// What a stage may touch in its dry run. It has no folder; lines that it says are shown if the node then runs.
class PlanContext : public RunContext {
 public:
  /// `shelf` is that of all nodes of the graph; null: this node is planned alone.
  PlanContext(NodeFacts facts, DryRunOptions dry, std::vector<NamedBytes> held = {},
              std::shared_ptr<PlanShelf> shelf = {})
      : RunContext(std::move(facts)),
        dry_(std::move(dry)),
        held_(std::move(held)),
        shelf_(shelf ? std::move(shelf) : std::make_shared<PlanShelf>()) {}

  const DryRunOptions& dry() const { return dry_; }
  /// What others have put out and keep on the node's device while it runs, such as "train.1.checkpoint"; without its
  /// own inputs, of which it knows more.
  const std::vector<NamedBytes>& held() const { return held_; }

  /// How this node computed a step when its run first started, as MemoryPlan::step has it; null: it has not started.
  const nlohmann::ordered_json& earlier_step() const { return earlier_step_; }

  /// What the plans of the graph's nodes leave for one another.
  PlanShelf& shelf() const { return *shelf_; }

  /// What this node needs. `plan.node` is filled in.
  virtual void plan(MemoryPlan plan) = 0;
  /// The result of the comparison. `certificate.node` is filled in.
  virtual void certify(Certificate certificate) = 0;

 protected:
  DryRunOptions dry_;
  std::vector<NamedBytes> held_;
  nlohmann::ordered_json earlier_step_;

 private:
  const std::shared_ptr<PlanShelf> shelf_;
};

}  // namespace runner
