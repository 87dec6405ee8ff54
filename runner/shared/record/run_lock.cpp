#include "runner/shared/record/run_lock.h"

#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

Diagnostic busy_run(const std::filesystem::path& run_folder) {
  return {ErrorCode::kRunBusy,
          {},
          "",
          "the run '" + run_folder.string() + "' is still running",
          "wait until it ends, or stop it{}: only one process may write the record"};
}

}  // namespace

Result<RunLock> RunLock::take(const std::filesystem::path& run_folder, Lease::Options options) {
  auto lock = FolderLock::take(RunLayout(run_folder).records(), busy_run(run_folder), std::move(options));
  if (!lock) return lock.errors();
  return RunLock(std::move(*lock));
}

Result<RunLock> RunLock::join(const std::filesystem::path& run_folder) {
  auto lock = FolderLock::join(RunLayout(run_folder).records(), busy_run(run_folder));
  if (!lock) return lock.errors();
  return RunLock(std::move(*lock));
}

std::string status_now(const std::filesystem::path& run_folder, std::string recorded) {
  if (recorded != "running") return recorded;
  const auto is_taken = FolderLock::is_taken(RunLayout(run_folder).records());
  return is_taken.value_or(true) ? recorded : "interrupted";
}

}  // namespace runner
