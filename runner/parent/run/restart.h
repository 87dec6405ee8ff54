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

/// Gives back the GPU that a run is on, and takes another that it has not been on. Errors as
/// NextGpu has them.
using TakeOtherGpu = std::function<Result<OwnDevice>()>;

/// How a run goes on after its worker has ended before it was done.
struct Restart {
  std::optional<OwnDevice> device =
      {};                  ///< on which, taken; of the CPU without a record. nullopt: the same
  Restarts restarts;       ///< what the next worker is told
  std::string node;        ///< that was at work; empty: none
  std::string line = {};   ///< for the user
  Recovery recovery = {};  ///< for the record
};

/// Decides whether a run goes on with another worker, by memory.max_retries and memory.on_oom of
/// the node at work:
///
/// - A node that is stranded on its device goes on on another GPU or on the CPU, whichever the
/// recipe names first and
///   is to be had.
/// - After a fatal error of the device, and where the worker was killed as the kernel kills what
/// takes too much of the
///   host's memory, it continues from the last checkpoint, as often as max_retries says, where
///   on_oom has replan. It does so under the same plan, since what happened may pass. Two workers
///   in a row that got no further than the checkpoint they began with end that: after a lost device
///   the run stops; after a kill on a CPU, whose memory is the host's, a training continues under
///   its next plan, and under the one after that, until there is none.
///
/// Whatever else ends a worker ends the run. Each device counts from 0.
class RestartRule {
 public:
  /// `graph` is borrowed; `other_gpu` may be empty. `device` is what the user knows the run's
  /// device as, OwnDevice::text(); empty: what the worker calls it.
  RestartRule(const Graph& graph, TakeOtherGpu other_gpu, std::string device = "");

  /// Takes note of what the worker says.
  void see(const Event& event);
  /// What is to be done after such an end; nullopt: the run has ended.
  std::optional<Restart> after(const Ending& ending);
  /// How the run ends where a signal has ended the wait for another GPU, in which case after() gave
  /// nullopt.
  std::optional<ExitCode> stopped() const { return stopped_; }
  /// The errors of an end after which nothing is done any more, and which the worker has not
  /// reported itself.
  Diagnostics errors_of(const Ending& ending) const;

 private:
  /// What the recipe says for the node at work.
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
  bool has_moved_ = false;                       // to this device, and saved nothing there
  std::set<std::string> finished_;               // nodes
  std::map<std::string, std::int64_t> resumed_;  // with how many metrics each node continued last
  std::int64_t saves_ = 0;                       // begun by this worker
  std::int64_t deaths_ = 0;                      // on this device
  std::int64_t stalled_ = 0;                     // workers in a row of which nothing is left
};

}  // namespace runner
