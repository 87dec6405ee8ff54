#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/protocol/meeting.h"
#include "runner/worker/executor.h"
#include "stages/machine/determinism.h"
#include "stages/machine/memory_meter.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/range_test.h"
#include "stages/worker/determinism_check.h"
#include "stages/worker/worker.h"

namespace stages {

/// A request to run a graph, or to determine what a run would need ("run", "plan").
class Worker::GraphRequest {
 public:
  /// `worker` and `request` are borrowed. Throws std::runtime_error if `request` is not a run or
  /// plan request.
  GraphRequest(Worker& worker, const nlohmann::ordered_json& request);

  /// Answers the request and returns the exit code. Throws Canceled if it is stopped, and
  /// StageError if it fails.
  runner::ExitCode answer();

 private:
  void meet();
  runner::ExitCode prepare();
  runner::Diagnostics set_up(const runner::Result<c10::Device>& device);
  void agree_on(c10::Device device);
  runner::ExitCode plan_and_run(c10::Device device);
  runner::ExitCode run(c10::Device device);
  std::filesystem::path folder_of_rank(const std::filesystem::path& record);
  runner::ExecutorWorld world();
  runner::RunOptions options() const;
  void pass(runner::Event event);
  void warn_of(const std::string& operation);
  void say_why(const runner::Diagnostic& error);
  runner::ExitCode report(const runner::Diagnostics& errors);
  bool has_difference() const { return check_ && check_->has_difference(); }

  Worker& worker_;
  const nlohmann::ordered_json& request_;
  const bool is_plan_;
  runner::Graph graph_;  // moved into the executor
  const runner::Determinism determinism_asked_for_;
  runner::RankOfRun ranks_;
  const std::optional<runner::Meeting> meeting_;
  std::unique_ptr<RankGroup> group_;  // null if this worker is alone
  const runner::DryRunOptions dry_;
  const std::unique_ptr<DeterminismCheck> check_;
  const std::unique_ptr<RangeTest> range_test_;  // null: not requested
  const runner::CheckpointSources trained_;
  const runner::Restarts restarts_;
  std::optional<runner::ReuseOptions> reuse_;
  int threads_ = 1;
  CublasWorkspace workspace_;
  std::optional<MemoryMeter> meter_;
  std::string node_;  // the node that is running
  std::optional<runner::Executor> executor_;
};

}  // namespace stages
