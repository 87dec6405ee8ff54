#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runner/stage/certificate.h"
#include "runner/stage/memory_plan.h"
#include "runner/stage/run_context.h"

namespace runner {

/// What a stage may touch in its dry run. Its folder() is empty; lines that it says are shown if the node then runs.
class PlanContext : public RunContext {
 public:
  /// The name of a device that is planned for and is not here, "NVIDIA L4", whose kind device() says; empty: it is
  /// device() itself.
  virtual std::string_view device_model() const = 0;
  /// The bytes that may be used where the recipe does not say it, and who says so; nullopt: what the device has.
  virtual std::optional<NamedBytes> budget() const = 0;
  /// True if other ways of computing the same are to be looked at; a plan that does not fit names them always.
  virtual bool wants_alternatives() const = 0;
  /// True if the ways of computing that the recipe asks for are to be compared with the whole batch.
  virtual bool wants_certificate() const = 0;
  /// What this node needs. `plan.node` is filled in.
  virtual void plan(MemoryPlan plan) = 0;
  /// The result of the comparison. `certificate.node` is filled in.
  virtual void certify(Certificate certificate) = 0;
};

}  // namespace runner
