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
  bool has_ended = false;  ///< it is neither running nor waiting to run
  std::string state;       ///< the scheduler's word for its state, "PENDING"
};

/// A cluster scheduler that supports job arrays. Task N of an array runs `retort sweep task <sweep
/// folder> N` and needs only that folder.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;
  /// "Slurm".
  virtual std::string name() const = 0;
  /// Submits a submission whose record is written; returns the scheduler's number for it.
  /// kClusterRefused if the scheduler rejected it, kClusterSilent if that is unknown.
  virtual Result<std::string> submit(const Submission& submission) = 0;
  /// The tasks of these submissions that the scheduler knows; forgotten tasks are missing.
  /// kClusterSilent.
  virtual Result<std::vector<QueuedTask>> look(std::span<const Submission> submissions) = 0;
  /// What happened to a task that look() no longer reports, in a word; empty: unknown.
  virtual std::string fate(const Submission& submission, std::size_t index) = 0;
  /// Makes all tasks save and end. kClusterSilent.
  virtual Diagnostics cancel(std::span<const Submission> submissions) = 0;
};

/// How to follow the tasks of a cluster.
struct FollowOptions {
  std::string prefix;  ///< of the submissions' names; no other sweep has the same
  std::chrono::milliseconds look{10000};      ///< interval between queries of the queue
  std::chrono::milliseconds patience{60000};  ///< how long the scheduler may give no answer
  int resubmissions = 3;                      ///< of a trial whose tasks are gone without a save
  bool waits = true;                          ///< false: only read what the tasks have reported so
                                              ///< far
  TrialOptions trials = {};                   ///< except `slots`: the cluster has its own
};

/// Has a cluster run the unfinished trials of the journal that it does not have already, as arrays
/// of tasks. This process alone reads the tasks' accounts and writes them into the journal. A task
/// that is gone before its end is submitted again. The records in launch/ (submission.h) say what
/// the cluster has, so another process can continue after this one was killed, and submits nothing
/// twice. `wait` lets time pass; if it returns a signal, this function ends and the tasks continue
/// on their own. Otherwise as run_trials(); kDeviceUnavailable if the cluster has not answered for
/// too long, or rejected a submission.
ExitCode follow_tasks(SweepJournal& journal, TaskQueue& queue, const FollowOptions& options,
                      const std::function<std::optional<int>(std::chrono::milliseconds)>& wait,
                      const TrialSurroundings& surroundings);

}  // namespace runner
