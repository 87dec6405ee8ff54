#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runner/run/event.h"
#include "runner/graph/graph.h"
#include "runner/stage.h"

namespace runner {

/// How a graph is to be run.
struct RunOptions {
  std::filesystem::path folder;  ///< the run folder; nodes write below its nodes/
  bool smoke = false;
};

/// Runs a compiled graph inside the worker: creates every stage, then runs them in order, handing artifacts on and
/// freeing each after its last consumer. What stages throw is caught here, once, and becomes a diagnostic.
class Executor {
 public:
  using Emit = std::function<void(const Event&)>;
  using IsCancelled = std::function<bool()>;
  using MeasurePeak = std::function<std::int64_t()>;  ///< bytes since the last call; 0: unknown
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  Executor(Graph graph, std::span<const StageKind* const> kinds, Emit emit, IsCancelled is_cancelled,
           MeasurePeak measure_peak, Clock clock = std::chrono::steady_clock::now);
  ~Executor();

  /// Creates every stage; all errors of all stages at once.
  Diagnostics create();

  /// Runs what create() made, once. Errors have been emitted; the result is how the worker is to end.
  /// A run that was cancelled ends with kInterrupted and emits no error.
  ExitCode run(const RunOptions& options, std::string_view device);

 private:
  class Artifacts;
  ExitCode run_node(std::size_t index, Artifacts& artifacts, const RunOptions& options, std::string_view device);

  Graph graph_;
  std::span<const StageKind* const> kinds_;
  Emit emit_;
  IsCancelled is_cancelled_;
  MeasurePeak measure_peak_;
  Clock clock_;
  std::vector<std::unique_ptr<Stage>> stages_;  // by node
};

}  // namespace runner
