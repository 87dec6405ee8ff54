#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The layout of launch/ in a sweep's folder, for trials that run on a cluster.
///
///   launcher.json        the launcher's settings, as requested (slurm_launcher.h)
///   1/                   the first submission: one array of tasks
///     submission.json    which trials (Submission)
///     script.sh, job.yaml   as given to the scheduler
///     0.jsonl, 0.log     what task 0 reports (task_account.h), and its output
class LaunchLayout {
 public:
  explicit LaunchLayout(const std::filesystem::path& sweep) : folder_(sweep / "launch") {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path launcher() const { return folder_ / "launcher.json"; }
  std::filesystem::path submission(int number) const { return folder_ / std::to_string(number); }
  std::filesystem::path account(int number, std::size_t task) const {
    return submission(number) / (std::to_string(task) + ".jsonl");
  }

 private:
  std::filesystem::path folder_;
};

/// Trials submitted to a cluster together: task N runs trials[N]. A submission is recorded before
/// it is made, so it can always be found again.
struct Submission {
  int number = 0;                     ///< counted from 1
  std::string name;                   ///< unique among jobs; identifies it to the scheduler
  std::string job = {};               ///< the scheduler's number for it; empty: unknown
  bool is_refused = false;            ///< the scheduler rejected it
  std::vector<std::uint64_t> trials;  ///< trial numbers
  std::vector<int> attempts_before;  ///< number of attempts of each trial, according to the journal
  std::int64_t time_out_minutes = 0;               ///< limit per attempt; 0: none
  std::vector<std::string> arguments;              ///< additional arguments of each trial
  std::vector<std::string> run_arguments = {};     ///< additional arguments of new trials
  std::vector<std::string> resume_arguments = {};  ///< additional arguments of resumed trials
};

/// Writes or replaces the record of a submission of `sweep`. Throws WriteError.
void write_submission(const Submission& submission, const std::filesystem::path& sweep);
/// Reads the submission in `folder`, launch/N of a sweep. kNoRun if there is none, kDamagedRecord
/// if its record cannot be read.
Result<Submission> read_submission(const std::filesystem::path& folder);
/// Reads all submissions of `sweep`, in order. kDamagedRecord if a record cannot be read.
Result<std::vector<Submission>> read_submissions(const std::filesystem::path& sweep);

}  // namespace runner
