#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/stage/plan_context.h"

namespace stages {

/// A dry run beside the work of a run, that nobody is shown.
class UnseenPlan final : public runner::PlanContext {
 public:
  explicit UnseenPlan(runner::NodeFacts facts, runner::DryRunOptions dry = {},
                      std::vector<runner::NamedBytes> held = {})
      : PlanContext(std::move(facts), std::move(dry), std::move(held)) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress&) override {}
  void say(std::string_view) override {}
  bool cancelled() const override { return false; }
  void plan(runner::MemoryPlan) override {}
  void certify(runner::Certificate) override {}
};

}  // namespace stages
