#include "runner/shared/disk/descriptor.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace runner {
namespace {

constexpr std::chrono::milliseconds kLook(50);

/// Returns 0, EWOULDBLOCK if another process holds the lock, or another errno.
int lock_turn(const Descriptor& file) {
  while (::flock(*file, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

/// False if the previous holder has removed the file, in which case other processes would lock a
/// new file with the same name.
bool is_still_there(const Descriptor& file, const std::filesystem::path& path) {
  struct stat ours {
  }, named{};
  return fstat(*file, &ours) == 0 && stat(path.c_str(), &named) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

}  // namespace

std::optional<Turn> Turn::take(const std::filesystem::path& path,
                               const std::function<bool()>& is_canceled,
                               const std::function<void()>& on_wait) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  bool has_waited = false;
  while (!is_canceled()) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_open()) return std::nullopt;
    const int trouble = lock_turn(file);
    if (trouble == 0 && is_still_there(file, path)) return Turn(path, std::move(file));
    if (trouble == 0) continue;
    if (trouble != EWOULDBLOCK) return std::nullopt;
    if (!std::exchange(has_waited, true)) on_wait();
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

Turn::~Turn() {
  std::error_code ignored;
  if (file_.is_open()) std::filesystem::remove(path_, ignored);  // while the lock is still ours
}

std::ifstream open_regular(const std::filesystem::path& path, std::ios::openmode mode) {
  std::error_code ignored;
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, ignored)) file.open(path, mode);
  else file.setstate(std::ios::failbit);
  return file;
}

}  // namespace runner
