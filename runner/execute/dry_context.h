#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/stage/plan_context.h"
#include "runner/execute/dry_run.h"
#include "runner/execute/executor.h"
#include "runner/stage/run_layout.h"

namespace runner {

/// The world as a node sees it in a dry run: nothing is written, and what it says is kept.
class DryContext : public PlanContext {
 public:
  DryContext(const Node& node, const Graph& graph, const RunOptions& options, const DryRunOptions& dry,
             std::string_view device, const ExecutorWorld& world, const std::set<std::string>& wanted, DryNode& result)
      : node_(node),
        graph_(graph),
        options_(options),
        dry_(dry),
        device_(device),
        world_(world),
        wanted_(wanted),
        result_(result) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const Progress&) override {}
  void say(std::string_view line) override { said_.emplace_back(line); }
  void debug(std::string_view line) override { world_.debug(node_.id, line); }
  bool cancelled() const override { return world_.is_cancelled(); }
  bool take_save_request() override { return false; }
  bool resuming() const override { return options_.resume; }
  void resumed(std::int64_t) override {}
  std::int64_t flush() override { return 0; }
  std::uint64_t seed() const override { return node_.seed; }
  std::string_view recipe_hash() const override { return graph_.recipe_hash; }
  std::string_view device() const override { return device_; }
  const std::filesystem::path& folder() const override { return no_folder_; }
  std::optional<TrainedWeights> trained() const override {
    const auto found = options_.checkpoints.find(node_.id);
    if (found != options_.checkpoints.end()) return found->second;
    if (node_.cacheable || result_.state != DryNode::State::kReused) return std::nullopt;
    return TrainedWeights{RunLayout(result_.why).node(node_.id).checkpoints(), TrainedWeights::Choice::kKept,
                          /*reused=*/true};
  }
  bool reuses() const override { return node_.cacheable && result_.state == DryNode::State::kReused; }
  bool wants(std::string_view output) const override { return wanted_.contains(std::string(output)); }
  bool smoke() const override { return options_.smoke; }

  std::string_view device_model() const override { return dry_.device_model; }
  std::optional<NamedBytes> budget() const override { return dry_.budget; }
  bool wants_alternatives() const override { return dry_.wants_alternatives; }
  bool wants_certificate() const override { return dry_.wants_certificate; }
  void plan(MemoryPlan plan) override {
    plan.node = node_.id;
    result_.plan = std::move(plan);
  }
  void certify(Certificate certificate) override {
    certificate.node = node_.id;
    result_.certificate = std::move(certificate);
  }

  std::vector<std::string>& said() { return said_; }

 private:
  const Node& node_;
  const Graph& graph_;
  const RunOptions& options_;
  const DryRunOptions& dry_;
  const std::string device_;
  const ExecutorWorld& world_;
  const std::set<std::string>& wanted_;
  DryNode& result_;
  const std::filesystem::path no_folder_;
  std::vector<std::string> said_;
};

}  // namespace runner
