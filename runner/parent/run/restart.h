#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/parent/run/chosen_device.h"
#include "runner/parent/run/supervise.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/event.h"

namespace runner {

/// Releases the GPU that a run is using and takes one that it has not used so far. Errors as for
/// NextGpu.
using TakeOtherGpu = std::function<Result<OwnDevice>()>;

/// How a run continues after its worker exited before the run was finished.
struct Restart {
  /// The device taken, without a record if it is the CPU; nullopt: the device that the run had.
  std::optional<OwnDevice> device = {};
  Restarts restarts;       ///< sent to the next worker
  std::string node;        ///< the node that was running; empty: none
  std::string line = {};   ///< the line shown to the user
  Recovery recovery = {};  ///< to be added to the run's record
};

/// Decides whether a run continues with another worker, according to the running node's
/// memory.max_retries and memory.on_oom:
///
/// - A node that cannot continue on its device moves to the first available device named in the
/// recipe, another GPU or the CPU.
/// - After a fatal device error, or after SIGKILL, which the kernel's OOM killer sends, the run
/// continues from the last checkpoint, at most max_retries times, if on_oom contains replan. It
/// keeps the same plan, since the cause may be temporary, until two workers in a row get no further
/// than the checkpoint from which they started. Then the run stops. After a kill on a CPU, where
/// tensors are in host memory, the run instead continues with the training node's next plan, until
/// no plans are left.
///
/// Any other worker exit ends the run. The counts start at 0 on each device.
class RestartRule {
 public:
  /// `graph` is borrowed; `other_gpu` may be empty. `device` is the device's name as shown to the
  /// user (OwnDevice::text()); if empty, the worker's name for the device is used.
  RestartRule(const Graph& graph, TakeOtherGpu other_gpu, std::string device = "");

  /// Must be called with every event from the worker.
  void see(const Event& event);
  /// Decides what to do after `ending`; nullopt: the run has ended.
  std::optional<Restart> after(const Ending& ending);
  /// Returns the run's exit code if a signal ended the wait for another GPU, in which case after()
  /// returned nullopt.
  std::optional<ExitCode> stopped() const { return stopped_; }
  /// Returns the errors to report if the run ends with `ending`, except those already reported by
  /// the worker.
  Diagnostics errors_of(const Ending& ending) const;

 private:
  /// The recipe's options for the running node.
  struct Options {
    std::optional<std::int64_t> max_retries = 0;  // nullopt: auto
    bool replans = false;
  };
  Options options() const;
  std::optional<Restart> move(Stranded stranded);
  Restart move_to(OwnDevice device, const Stranded& stranded, const std::string& in_vain);
  std::optional<Restart> repeat(bool is_lost);
  const std::string& here() const { return name_.empty() ? device_ : name_; }

  const Graph& graph_;
  const TakeOtherGpu other_gpu_;
  std::string name_;  // the device's name, as shown to the user
  std::string device_, node_;
  std::optional<Stranded> stranded_;
  std::optional<ExitCode> stopped_;
  // True if the run has moved to this device and has saved nothing there so far.
  bool has_moved_ = false;
  std::set<std::string> finished_;  // nodes
  // The number of metrics that each node had when it last continued.
  std::map<std::string, std::int64_t> resumed_;
  std::int64_t saves_ = 0;    // number of saves begun by this worker
  std::int64_t deaths_ = 0;   // number of workers that died on this device
  std::int64_t stalled_ = 0;  // number of consecutive workers that made no progress
};

}  // namespace runner
