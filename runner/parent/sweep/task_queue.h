#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/error/result.h"
#include "runner/parent/sweep/submission.h"

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
  /// Hands over a submission whose record is written: the scheduler's number of it. kClusterRefused where it has not
  /// taken it, kClusterSilent where nobody knows.
  virtual Result<std::string> submit(const Submission& submission) = 0;
  /// The tasks of these submissions that it knows; of those that it has forgotten there are none. kClusterSilent.
  virtual Result<std::vector<QueuedTask>> look(std::span<const Submission> submissions) = 0;
  /// What became of a task that look() does not know any more, a word; empty: nobody knows.
  virtual std::string fate(const Submission& submission, std::size_t index) = 0;
  /// Has all tasks save and end. kClusterSilent.
  virtual Diagnostics cancel(std::span<const Submission> submissions) = 0;
};

}  // namespace runner
