#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/stage/plan_context.h"
#include "tests/support/test_device.h"

/// A dry run that records the plan of a stage.
class PlanningContext final : public runner::PlanContext {
 public:
  PlanningContext()
      : PlanContext({.seed = 1, .recipe_hash = "recipe", .device = test_device()}, {}) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress&) override {}
  void say(std::string_view line) override { said.emplace_back(line); }
  bool canceled() const override { return false; }
  void plan(runner::MemoryPlan plan) override { planned = std::move(plan); }
  void certify(runner::Certificate certificate) override { certified = std::move(certificate); }

  runner::NodeFacts& facts = node_;
  runner::DryRunOptions& asked = dry_;
  std::vector<runner::NamedBytes>& kept_by_others = held_;
  nlohmann::ordered_json& earlier_step_again = earlier_step_;
  std::vector<std::string> said;
  std::optional<runner::MemoryPlan> planned;
  std::optional<runner::Certificate> certified;
};
