#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "runner/execute/executor.h"
#include "runner/stage/run_context.h"
#include "runner/stage/run_layout.h"

namespace runner {

/// The world as one node sees it: everything becomes an event.
class NodeContext : public RunContext {
 public:
  NodeContext(std::size_t index, const Graph& graph, const RunOptions& options, std::string_view device,
              const ExecutorWorld& world, Reuse* reuse, const std::set<std::string>& wanted, bool& has_saved)
      : index_(index),
        node_(graph.nodes[index]),
        graph_(graph),
        folder_(RunLayout(options.folder).node(node_.id).folder()),
        options_(options),
        device_(device),
        world_(world),
        reuse_(reuse),
        wanted_(wanted),
        has_saved_(has_saved) {}

  void metric(std::string_view name, double value, std::int64_t step) override {
    ++metrics_;
    world_.emit(NodeMetric{node_.id, std::string(name), value, step});
  }
  void progress(const Progress& progress) override {
    const auto now = world_.clock();
    const bool is_due = !last_progress_ || progress.phase != last_phase_ || now - *last_progress_ >= kInterval;
    if (!is_due) return;
    last_progress_ = now;
    last_phase_ = progress.phase;
    world_.emit(NodeProgress{node_.id, progress});
  }
  void say(std::string_view line) override { world_.emit(Said{node_.id, std::string(line)}); }
  void debug(std::string_view line) override { world_.debug(node_.id, line); }
  bool cancelled() const override { return world_.is_cancelled(); }
  bool take_save_request() override { return world_.take_save_request(); }
  bool resuming() const override { return options_.resume; }
  void resumed(std::int64_t metrics) override {
    has_saved_ = true;
    metrics_ = metrics;
    world_.emit(Resumed{node_.id, metrics});
  }
  std::int64_t flush() override {
    world_.flush(node_.id);
    has_saved_ = true;
    return metrics_;
  }
  std::uint64_t seed() const override { return node_.seed; }
  std::string_view recipe_hash() const override { return graph_.recipe_hash; }
  std::string_view device() const override { return device_; }
  const std::filesystem::path& folder() const override { return folder_; }
  std::optional<TrainedWeights> trained() const override {
    const auto found = options_.checkpoints.find(node_.id);
    if (found != options_.checkpoints.end()) return found->second;
    if (node_.cacheable || !is_taken()) return std::nullopt;
    return TrainedWeights{NodeLayout(folder_).checkpoints(), TrainedWeights::Choice::kKept, /*reused=*/true};
  }
  bool reuses() const override { return node_.cacheable && is_taken(); }
  void not_reused(std::string_view why) override {
    reuse_->drop(index_);
    say("computed again:  " + std::string(why));
  }
  bool wants(std::string_view output) const override { return wanted_.contains(std::string(output)); }
  bool smoke() const override { return options_.smoke; }
  Observer* observer() const override { return options_.observer; }

  std::int64_t metrics() const { return metrics_; }

 private:
  static constexpr std::chrono::milliseconds kInterval{100};  // between two progress events of a phase

  bool is_taken() const { return reuse_ && reuse_->taken(index_); }

  const std::size_t index_;
  const Node& node_;
  const Graph& graph_;
  const std::filesystem::path folder_;
  const RunOptions& options_;
  const std::string device_;
  const ExecutorWorld& world_;
  Reuse* const reuse_;  // null: nothing is reused
  const std::set<std::string> wanted_;
  bool& has_saved_;
  std::int64_t metrics_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_progress_;
  std::string last_phase_;
};

}  // namespace runner
