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

/// Compares the gradients from one way of computing a step with the gradients of the whole batch at
/// once, in float64 on small shapes.
struct Certificate {
  /// Gradients with an error below this are considered equal in exact arithmetic. Equal gradients
  /// stay below 1e-14; different ones exceed 1e-3.
  static constexpr double kLimit = 1e-12;
  /// The limit for ranks that normalize over the whole batch (BatchNorm). Each such layer divides
  /// by a standard deviation, which may be as small as sqrt(1e-5), and so magnifies rounding
  /// errors.
  static constexpr double kLimitOfNormed = 1e-9;

  struct Parameter {
    std::string name;
    double relative_error = 0;  ///< |g - reference| / |reference| (L2); the denominator is at least
                                ///< a thousandth of the overall norm
    bool operator==(const Parameter&) const = default;
  };

  std::string node;
  std::string
      compared;  ///< "micro_batch 3, activation_checkpointing block against the whole batch of 8"
  std::vector<Parameter> parameters;  ///< all trained parameters, in the network's order
  std::vector<std::string> changed;   ///< what else differs: "buffer running_mean"; must be empty
  std::string refused;                ///< why nothing was computed; empty if it was
  double limit = kLimit;              ///< the limit that applies

  /// Returns the largest error; NaN if any error is NaN.
  double worst() const {
    double worst = 0;
    for (const auto& [name, error] : parameters) {
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
    return worst;
  }
  bool holds() const {
    return refused.empty() && changed.empty() && !parameters.empty() && worst() < limit;
  }
  bool operator==(const Certificate&) const = default;
};

nlohmann::ordered_json to_json(const Certificate& certificate);
/// Parses the result of to_json(). Throws std::runtime_error for any other JSON.
Certificate certificate_from_json(const nlohmann::ordered_json& json);

/// State shared by the plans of a graph's nodes, such as dry runs that another node would otherwise
/// repeat. Holds one object of each type, created on first use:
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

/// Options for a dry run.
struct DryRunOptions {
  /// The name of an absent device to plan for, such as "NVIDIA L4"; NodeFacts::device is then its
  /// kind. If empty, the plan is for the actual device.
  std::string device_model = {};
  /// The memory budget in bytes and its source, used if the recipe sets no budget; nullopt for the
  /// device's memory.
  std::optional<NamedBytes> budget = {};
  /// Also evaluate alternatives. A plan that does not fit always lists them.
  bool wants_alternatives = false;
  /// Also compare each requested way of computing a step with the whole batch at once, whether or
  /// not it fits.
  bool wants_certificate = false;
  /// Reject code that cannot be planned without running it on the device.
  bool is_strict = false;
};

/// The environment of a stage in its dry run. There is no folder. Lines passed to say() are shown
/// if the node runs afterward.
class PlanContext : public RunContext {
 public:
  /// `shelf` is shared by all nodes of the graph; null if this node is planned on its own.
  PlanContext(NodeFacts facts, DryRunOptions dry, std::vector<NamedBytes> held = {},
              std::shared_ptr<PlanShelf> shelf = {})
      : RunContext(std::move(facts)),
        dry_(std::move(dry)),
        held_(std::move(held)),
        shelf_(shelf ? std::move(shelf) : std::make_shared<PlanShelf>()) {}

  const DryRunOptions& dry() const { return dry_; }
  /// Outputs of other nodes, such as "train.1.checkpoint", that stay on this node's device while it
  /// runs. Does not include the node's own inputs, which the node itself counts.
  const std::vector<NamedBytes>& held() const { return held_; }

  /// Returns how this node computed a step when its run first started, in the form of
  /// MemoryPlan::step; null if it has not started.
  const nlohmann::ordered_json& earlier_step() const { return earlier_step_; }

  /// Returns the state shared by the plans of the graph's nodes.
  PlanShelf& shelf() const { return *shelf_; }

  /// Reports what this node needs. Fills in `plan.node`.
  virtual void plan(MemoryPlan plan) = 0;
  /// Reports the result of the comparison. Fills in `certificate.node`.
  virtual void certify(Certificate certificate) = 0;

 protected:
  DryRunOptions dry_;
  std::vector<NamedBytes> held_;
  nlohmann::ordered_json earlier_step_;

 private:
  const std::shared_ptr<PlanShelf> shelf_;
};

}  // namespace runner
