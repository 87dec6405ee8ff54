#include "runner/record/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "runner/stage/run_layout.h"

namespace runner {
namespace {

using namespace std::chrono_literals;
constexpr auto kPatience = 3s;  // the kernel ends the worker of a retort that was killed within milliseconds
constexpr auto kPause = 20ms;

Result<Descriptor> open_record(const std::filesystem::path& run_folder) {
  const auto path = RunLayout(run_folder).records();
  Descriptor file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (file.is_open()) return file;
  return Diagnostic{
      ErrorCode::kCannotWrite, {}, "", "cannot open '" + path.string() + "': " + std::strerror(errno), ""};
}

/// False where somebody else holds a lock that forbids it. A file system without locks has nobody who could.
bool lock(const Descriptor& file, int operation) {
  while (::flock(*file, operation | LOCK_NB) != 0) {
    if (errno != EINTR) return errno != EWOULDBLOCK;
  }
  return true;
}

Diagnostic busy(const std::filesystem::path& run_folder) {
  return {ErrorCode::kRunBusy,
          {},
          "",
          "the run '" + run_folder.string() + "' is still running",
          "wait until it ends, or stop it: only one process may write the record"};
}

}  // namespace

Result<RunLock> RunLock::take(const std::filesystem::path& run_folder) {
  auto file = open_record(run_folder);
  if (!file) return file.errors();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // Alone first, then so that the worker may join. Between the two another may come, who looks whether somebody is
  // here.
  while (!lock(*file, LOCK_EX) || !lock(*file, LOCK_SH)) {
    if (std::chrono::steady_clock::now() >= deadline) return busy(run_folder);
    std::this_thread::sleep_for(kPause);
  }
  return RunLock(std::move(*file));
}

Result<RunLock> RunLock::join(const std::filesystem::path& run_folder) {
  auto file = open_record(run_folder);
  if (!file) return file.errors();
  if (!lock(*file, LOCK_SH)) return busy(run_folder);
  return RunLock(std::move(*file));
}

std::string status_now(const std::filesystem::path& run_folder, std::string recorded) {
  if (recorded != "running") return recorded;
  const auto file = open_record(run_folder);
  if (!file) return recorded;
  const bool is_free = ::flock(**file, LOCK_EX | LOCK_NB) == 0;  // for a moment: it ends with `file`
  return is_free ? "interrupted" : recorded;
}

}  // namespace runner
