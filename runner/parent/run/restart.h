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

/// Releases the GPU that a run is on, and takes another that it has not been on. Errors as for
/// NextGpu.
using TakeOtherGpu = std::function<Result<OwnDevice>()>;

/// How a run continues after its worker ended before the run was done.
struct Restart {
  std::optional<OwnDevice> device = {};  ///< the device taken; for the CPU, without a record.
                                         ///< nullopt: the same device
  Restarts restarts;                     ///< sent to the next worker
  std::string node;                      ///< the node that was running; empty: none
  std::string line = {};                 ///< message for the user
  Recovery recovery = {};                ///< for the run's record
};

/// Decides whether a run continues with another worker, by memory.max_retries and memory.on_oom of
/// the running node:
///
/// - A node that cannot continue on its device moves to another GPU or to the CPU, to the first
///   that the recipe names and that is available.
/// - After a fatal device error, or after SIGKILL, which the kernel's OOM killer uses, the run
///   continues from the last checkpoint, at most max_retries times, if on_oom has replan. It keeps
///   the same plan, since the cause may be temporary. This ends when two workers in a row got no
///   further than the checkpoint they began with. After a lost device the run then stops. After a
///   kill on a CPU, whose memory is the host's, a training then continues under its next plan, and
///   so on until there is none.
///
/// Any other end of a worker ends the run. The counts start at 0 on each device.
class RestartRule {
 public:
  /// `graph` is borrowed; `other_gpu` may be empty. `device` is the device's name for the user,
  /// OwnDevice::text(); empty: the worker's name for it.
  RestartRule(const Graph& graph, TakeOtherGpu other_gpu, std::string device = "");

  /// Call with every event of the worker.
  void see(const Event& event);
  /// What to do after such an end; nullopt: the run has ended.
  std::optional<Restart> after(const Ending& ending);
  /// The run's exit code if a signal ended the wait for another GPU; after() then returned nullopt.
  std::optional<ExitCode> stopped() const { return stopped_; }
  /// The errors of a final end that the worker has not reported itself.
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
  std::string name_;  // of the device, for the user
  std::string device_, node_;
  std::optional<Stranded> stranded_;
  std::optional<ExitCode> stopped_;
  bool has_moved_ = false;                       // to this device, without saving anything there so
                                                 // far
  std::set<std::string> finished_;               // nodes
  std::map<std::string, std::int64_t> resumed_;  // number of metrics with which each node last
                                                 // continued
  std::int64_t saves_ = 0;                       // saves begun by this worker
  std::int64_t deaths_ = 0;                      // workers that died on this device
  std::int64_t stalled_ = 0;                     // workers in a row that made no progress
};

}  // namespace runner
