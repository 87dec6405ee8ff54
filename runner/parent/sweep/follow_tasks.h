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

/// A task, as reported by the scheduler.
struct QueuedTask {
  std::string submission;  ///< the submission's name
  std::size_t index = 0;   ///< index of the task in the submission
  bool has_ended = false;  ///< it is neither running nor waiting to run
  std::string state;       ///< the scheduler's name for the state, "PENDING"
};

/// A cluster scheduler that supports job arrays. Task N of an array runs `retort sweep task <sweep
/// folder> N` and needs only that folder.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;
  /// Returns the scheduler's name, "Slurm".
  virtual std::string name() const = 0;
  /// Passes a submission that has already been recorded to the scheduler, and returns the
  /// scheduler's number for it. kClusterRefused if the scheduler rejected it, kClusterSilent if the
  /// outcome is unknown.
  virtual Result<std::string> submit(const Submission& submission) = 0;
  /// Returns the tasks of `submissions` that the scheduler still knows about; kClusterSilent if it
  /// does not respond.
  virtual Result<std::vector<QueuedTask>> look(std::span<const Submission> submissions) = 0;
  /// Returns, in one word, what happened to a task that look() no longer returns, or an empty
  /// string if unknown.
  virtual std::string fate(const Submission& submission, std::size_t index) = 0;
  /// Makes all tasks of `submissions` save and exit; kClusterSilent if the scheduler does not
  /// respond.
  virtual Diagnostics cancel(std::span<const Submission> submissions) = 0;
};

/// How to follow the tasks of a cluster.
struct FollowOptions {
  std::string prefix;                         ///< prefix of submission names; unique to this sweep
  std::chrono::milliseconds look{10000};      ///< interval between queries of the queue
  std::chrono::milliseconds patience{60000};  ///< how long the scheduler may go without responding
  int resubmissions = 3;                      ///< limit for a trial that loses tasks without saving
  /// False: only read what the tasks have reported so far.
  bool waits = true;
  TrialOptions trials = {};  ///< except `slots`: the cluster decides how many run
};

/// Submits the journal's unfinished trials that the cluster does not already have, as arrays of
/// tasks, and follows them. Only this process reads the tasks' accounts and writes them to the
/// journal. A task that disappears before its trial has ended is resubmitted. The records in
/// launch/ (submission.h) list what the cluster has, so if this process is killed, another can
/// continue without submitting anything twice. `wait` blocks for a given time; if it returns a
/// signal, this function returns and the tasks continue on their own. Otherwise like run_trials();
/// kDeviceUnavailable if the scheduler did not respond for too long or rejected a submission.
ExitCode follow_tasks(SweepJournal& journal, TaskQueue& queue, const FollowOptions& options,
                      const std::function<std::optional<int>(std::chrono::milliseconds)>& wait,
                      const TrialSurroundings& surroundings);

}  // namespace runner
