#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The layout of launch/ in a sweep's folder, of trials that a cluster runs.
///
///   launcher.json        by what, as it was asked for (launcher.h)
///   1/                   what was handed over first: one array of tasks
///     submission.json    which trials (Submission)
///     script.sh, job.yaml   as the scheduler got it
///     0.jsonl, 0.log     what task 0 tells of itself (task_account.h), and what it printed
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

/// Trials that are handed to a cluster together: task N of it runs trials[N]. Its record is written
/// before it is handed over, so that it is found again whatever happens then.
struct Submission {
  int number = 0;                      ///< from 1
  std::string name;                    ///< that no other job has: the scheduler is asked for it
  std::string job = {};                ///< the scheduler's number of it; empty: not known
  bool is_refused = false;             ///< the scheduler has not taken it
  std::vector<std::uint64_t> trials;   ///< their numbers
  std::vector<int> attempts_before;    ///< of each trial, as the journal counts them
  std::int64_t time_out_minutes = 0;   ///< of an attempt, 0: any
  std::vector<std::string> arguments;  ///< further ones of each trial
  std::vector<std::string> run_arguments = {};     ///< further ones of those that begin
  std::vector<std::string> resume_arguments = {};  ///< further ones of those that are resumed
};

/// Writes, or writes anew, the record of a submission of `sweep`. Throws WriteError.
void write_submission(const Submission& submission, const std::filesystem::path& sweep);
/// The one in the folder launch/N of a sweep; kNoRun, kDamagedRecord.
Result<Submission> read_submission(const std::filesystem::path& folder);
/// Those of `sweep`, in order. kDamagedRecord.
Result<std::vector<Submission>> read_submissions(const std::filesystem::path& sweep);

}  // namespace runner
