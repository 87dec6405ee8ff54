#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/sweep/run_trials.h"
#include "runner/parent/sweep/submission.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A task as a scheduler knows it.
struct QueuedTask {
  std::string submission;  ///< its name
  std::size_t index = 0;   ///< in the submission
  bool has_ended = false;  ///< it is neither at work nor waiting to be
  std::string state;       ///< the scheduler's word for it, "PENDING"
};

/// A scheduler of a cluster that runs arrays of tasks. Task N of a submission runs
/// `retort sweep task <its folder> N`, which asks for nothing but the sweep's folder.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;
  /// "Slurm".
  virtual std::string name() const = 0;
  /// Hands over a submission whose record is written: the scheduler's number of it. kClusterRefused
  /// where it has not taken it, kClusterSilent where nobody knows.
  virtual Result<std::string> submit(const Submission& submission) = 0;
  /// The tasks of these submissions that it knows; of those that it has forgotten there are none.
  /// kClusterSilent.
  virtual Result<std::vector<QueuedTask>> look(std::span<const Submission> submissions) = 0;
  /// What became of a task that look() does not know any more, a word; empty: nobody knows.
  virtual std::string fate(const Submission& submission, std::size_t index) = 0;
  /// Has all tasks save and end. kClusterSilent.
  virtual Diagnostics cancel(std::span<const Submission> submissions) = 0;
};

/// How the tasks of a cluster are followed.
struct FollowOptions {
  std::string prefix;  ///< of the submissions' names, of which no other sweep has the same
  std::chrono::milliseconds look{10000};      ///< from one look at the queue to the next
  std::chrono::milliseconds patience{60000};  ///< as long as that it may give no answer
  int resubmissions = 3;                      ///< of a trial whose tasks are gone without a save
  bool waits = true;                          ///< else only what the tasks have told by now is read
  TrialOptions trials = {};                   ///< but for `slots`: the cluster has its own
};

/// Has a cluster run what the journal says is still to be done, and is not in the cluster's hands
/// already: as arrays of tasks, whose accounts are read and written into the journal, by this
/// process alone. A task that is gone before its end is handed over again. The cluster's part of it
/// is known by the records in launch/ (submission.h), so another process goes on where this one was
/// killed, and hands over nothing twice. `wait` lets the time pass; a signal that it brings ends
/// this, and the tasks go on by themselves. As run_trials(); kDeviceUnavailable where the cluster
/// has not answered for too long, or refused what it was given.
ExitCode follow_tasks(SweepJournal& journal, TaskQueue& queue, const FollowOptions& options,
                      const std::function<std::optional<int>(std::chrono::milliseconds)>& wait,
                      const TrialSurroundings& surroundings);

}  // namespace runner
