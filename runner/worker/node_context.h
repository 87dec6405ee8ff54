#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/worker/executor.h"

namespace runner {

/// Returns the facts given to node `index`; in a dry run, it is given nothing else. `taken` is the
/// folder with this node's reused files from an earlier run.
NodeFacts node_facts(std::size_t index, const Graph& graph, const RunOptions& options,
                     std::string_view device, std::set<std::string> wanted,
                     const std::optional<NodeLayout>& taken);

/// Writes the division passed to RunContext::divided() into a node's folder. Throws WriteError.
void keep_division(const NodeLayout& layout, const std::function<std::string()>& division);

/// The context of a node during a run. Turns everything into events.
class NodeContext final : public RunContext {
 public:
  /// `reuse` is null if nothing is reused. Everything except `facts` is borrowed.
  NodeContext(NodeFacts facts, std::size_t index, const std::string& id, const ExecutorWorld& world,
              Reuse* reuse)
      : RunContext(std::move(facts)), index_(index), id_(id), world_(world), reuse_(reuse) {}

  void metric(std::string_view name, double value, std::int64_t step) override {
    ++metrics_;
    world_.emit(NodeMetric{id_, std::string(name), value, step});
  }
  void histogram(std::string_view name, std::vector<HistogramBucket> buckets,
                 std::int64_t step) override {
    world_.emit(NodeHistogram{id_, std::string(name), std::move(buckets), step});
  }
  void progress(const Progress& progress) override {
    const auto now = world_.clock();
    const bool is_due =
        !last_progress_ || progress.phase != last_phase_ || now - *last_progress_ >= kInterval;
    if (!is_due) return;
    last_progress_ = now;
    last_phase_ = progress.phase;
    world_.emit(NodeProgress{id_, progress});
  }
  void say(std::string_view line) override { world_.emit(Said{id_, std::string(line)}); }
  void detail(std::string_view line) override {
    world_.emit(Logged{LogLevel::kInfo, id_, std::string(line)});
  }
  void debug(std::string_view line) override { world_.debug(id_, line); }
  void divided(const std::function<std::string()>& division) override {
    keep_division(NodeLayout(node_.folder), division);
  }
  void recovered(const Recovery& recovery) override { world_.emit(Recovered{id_, recovery}); }
  bool canceled() const override { return world_.is_canceled(); }
  bool take_save_request() override { return world_.take_save_request(); }
  void resumed(std::int64_t metrics, std::int64_t step) override {
    metrics_ = metrics;
    world_.emit(Resumed{id_, metrics, step});
  }
  std::int64_t sync_metrics() override {
    world_.sync_metrics(id_);
    return metrics_;
  }
  void not_reused(std::string_view why) override {
    RunContext::not_reused(why);
    reuse_->drop(index_);
    say("computed again: " + std::string(why));
  }

  std::int64_t metrics() const { return metrics_; }

 private:
  static constexpr std::chrono::milliseconds kInterval{
      100};  // minimum time between progress events of a phase

  const std::size_t index_;
  const std::string& id_;
  const ExecutorWorld& world_;
  Reuse* const reuse_;
  std::int64_t metrics_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_progress_;
  std::string last_phase_;
};

/// The context of a node during a dry run. Writes nothing and keeps the lines passed to say().
class DryContext final : public PlanContext {
 public:
  /// Stores the plan and the certificate in `result`. `world` and `result` are borrowed.
  DryContext(NodeFacts facts, DryRunOptions dry, std::vector<NamedBytes> held,
             std::shared_ptr<PlanShelf> shelf, const ExecutorWorld& world, DryNode& result)
      : PlanContext(std::move(facts), std::move(dry), std::move(held), std::move(shelf)),
        world_(world),
        result_(result) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const Progress&) override {}
  void say(std::string_view line) override { said_.emplace_back(line); }
  void debug(std::string_view line) override { world_.debug(result_.node, line); }
  bool canceled() const override { return world_.is_canceled(); }
  void plan(MemoryPlan plan) override {
    plan.node = result_.node;
    result_.plan = std::move(plan);
  }
  void certify(Certificate certificate) override {
    certificate.node = result_.node;
    result_.certificate = std::move(certificate);
  }

  void divided(const std::function<std::string()>& division) override { division_ = division; }

  std::vector<std::string>& said() { return said_; }
  const std::function<std::string()>& division() const { return division_; }
  /// Sets earlier_step() from the plan in the file `recorded`, if it exists. If the file cannot be
  /// read, informs the user.
  void replay(const std::filesystem::path& recorded);

 private:
  const ExecutorWorld& world_;
  DryNode& result_;
  std::vector<std::string> said_;
  std::function<std::string()> division_;
};

/// Returns the training data of the models that node `index` evaluates. This covers the training
/// nodes of its graph and, if these or their models start from weights of other runs, the training
/// nodes of those runs. Includes validation parts, unless the node is wired to one. A run with an
/// unreadable record is represented by its own folder, which has no division.
std::vector<TrainedData> trained_data(std::size_t index, const Graph& graph,
                                      const RunOptions& options);

/// Converts the current exception, thrown by a stage, to an error at the node's location in the
/// recipe. If its text has several lines, such as a LibTorch backtrace, the user sees the first
/// line and the log (stderr) gets all of it.
Diagnostic stage_failure(const Node& node);

/// Converts the current exception, which may contain several failures, to errors.
Diagnostics stage_failures(const Node& node);

/// Returns the first alternative of a plan that is possible and fits its budget; null if there is
/// none.
const PlanAlternative* cheapest_that_fits(const MemoryPlan& plan);

/// Returns the error for a plan that does not fit its budget: how many bytes it is over, what is
/// live at the peak, and the cheapest change that would make it fit. `pointer` is the node's
/// location in the recipe.
Diagnostic does_not_fit(const MemoryPlan& plan, std::string pointer = "");

}  // namespace runner
