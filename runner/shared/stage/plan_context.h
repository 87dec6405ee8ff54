#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/run_context.h"

namespace runner {

/// How far a way of computing a gradient is from computing the whole batch at once, in float64 on
/// small shapes.
struct Certificate {
  /// Below it two gradients are equal in exact arithmetic: what is equal stays under 1e-14, what is
  /// not is above 1e-3.
  static constexpr double kLimit = 1e-12;

  struct Parameter {
    std::string name;
    double relative_error =
        0;  ///< |g - reference| / |reference| (L2), the latter a thousandth of the whole at least
    bool operator==(const Parameter&) const = default;
  };

  std::string node;
  std::string
      compared;  ///< "micro_batch 3, activation_checkpointing block against the whole batch of 8"
  std::vector<Parameter> parameters;  ///< all that are trained, in the network's order
  std::vector<std::string>
      changed;          ///< what differs besides the gradient: "buffer running_mean"; none is good
  std::string refused;  ///< why nothing was computed; empty: it was

  /// The largest error; NaN where one is no number.
  double worst() const {
    double worst = 0;
    for (const auto& [name, error] : parameters) {
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
    return worst;
  }
  bool holds() const {
    return refused.empty() && changed.empty() && !parameters.empty() && worst() < kLimit;
  }
  bool operator==(const Certificate&) const = default;
};

nlohmann::ordered_json to_json(const Certificate& certificate);
/// The same back. Throws std::runtime_error for what to_json() has not made.
Certificate certificate_from_json(const nlohmann::ordered_json& json);

/// What the plans of one graph's nodes leave for one another, such as dry runs that another node's
/// would repeat. One object of each type, which its first user makes:
///
///   SharedTraces& traces = context.shelf().of<SharedTraces>();
class PlanShelf {
 public:
  template <typename T>
  T& of() {
    std::shared_ptr<void>& place = objects_[typeid(T)];
    if (!place) place = std::make_shared<T>();
    return *static_cast<T*>(place.get());
  }

 private:
  std::map<std::type_index, std::shared_ptr<void>> objects_;
};

/// What a dry run looks for.
struct DryRunOptions {
  /// The name of a device that is planned for and is not here, "NVIDIA L4", whose kind
  /// NodeFacts::device says; empty: it is that device itself.
  std::string device_model = {};
  /// The bytes that may be used where the recipe does not say it, and who says so; nullopt: what
  /// the device has.
  std::optional<NamedBytes> budget = {};
  /// Whether other ways of computing the same are to be looked at; a plan that does not fit names
  /// them always.
  bool wants_alternatives = false;
  /// Whether the ways of computing that the recipe asks for are compared with the whole batch,
  /// whether they fit or not.
  bool wants_certificate = false;
};

/// What a stage may touch in its dry run. It has no folder; lines that it says are shown if the
/// node then runs.
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
  /// What others have put out and keep on the node's device while it runs, such as
  /// "train.1.checkpoint"; without its own inputs, of which it knows more.
  const std::vector<NamedBytes>& held() const { return held_; }

  /// How this node computed a step when its run first started, as MemoryPlan::step has it; null: it
  /// has not started.
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
