#include "runner/shared/disk/folder_lock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/shared/error/system_limit.h"

namespace runner {
namespace {

using namespace std::chrono_literals;
constexpr auto kPatience = 3s;  // a killed retort's worker is gone within milliseconds
constexpr auto kPause = 20ms;

enum class Locked { kYes, kNo, kHasNone };

Result<Descriptor> open_folder(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (file.is_open()) return file;
  return Diagnostic{ErrorCode::kCannotWrite,
                    {},
                    "",
                    "cannot open '" + path.string() + "': " + std::strerror(errno),
                    ""};
}

/// Tries to lock without waiting. Returns kNo if another process holds a conflicting lock;
/// kHasNone, with errno set, if the file system does not support locks.
Locked lock(const Descriptor& file, int operation) {
  while (::flock(*file, operation | LOCK_NB) != 0) {
    if (errno != EINTR) return errno == EWOULDBLOCK ? Locked::kNo : Locked::kHasNone;
  }
  return Locked::kYes;
}

Diagnostic busy_with(Diagnostic busy, const std::string& holder) {
  for (std::string* text : {&busy.message, &busy.help})
    if (const std::size_t at = text->find("{}"); at != text->npos)
      text->replace(at, 2, holder.empty() ? "" : " (" + holder + ")");
  return busy;
}

/// Returns the error for a lease that cannot be created. `no_lock` is the errno of flock, or 0 if
/// the file system supports locks.
Diagnostic no_lease(const std::filesystem::path& folder, int error, int no_lock) {
  const std::error_code code(error, std::generic_category());
  if (auto limit = limit_reached(code, "a lease in '" + folder.string() + "'"))
    return *std::move(limit);
  std::string message =
      "cannot create a lease in '" + folder.string() + "': " + std::strerror(error);
  if (no_lock != 0)
    message +=
        "; its file system has no locks either (flock: " + std::string(std::strerror(no_lock)) +
        ")";
  return {ErrorCode::kCannotWrite,
          {},
          "",
          std::move(message),
          "use a folder on another file system, such as a local disk: without a lock or a lease, "
          "two processes could work in it at the same time"};
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder, const Diagnostic& busy,
                                    Lease::Options options) {
  auto file = open_folder(folder);
  if (!file) return file.errors();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int no_lock = 0;
  // Lock exclusively first, then switch to a shared lock so that others may join. In between,
  // another process that checks whether the folder is taken may hold the lock.
  for (;;) {
    const Locked alone = lock(*file, LOCK_EX);
    const Locked shared = alone == Locked::kYes ? lock(*file, LOCK_SH) : alone;
    if (shared == Locked::kHasNone) no_lock = errno;
    if (shared != Locked::kNo) break;
    if (std::chrono::steady_clock::now() >= deadline)
      return busy_with(busy, Lease::holder_of(folder));
    std::this_thread::sleep_for(kPause);
  }
  FolderLock result(std::move(*file));
  Lease::Taken taken = Lease::take(folder, std::move(options));
  if (taken.error != 0) return no_lease(folder, taken.error, no_lock);
  if (!taken.lease) return busy_with(busy, taken.holder);
  result.lease_ = std::move(taken.lease);
  return result;
}

Result<FolderLock> FolderLock::join(const std::filesystem::path& folder, const Diagnostic& busy) {
  auto file = open_folder(folder);
  if (!file) return file.errors();
  const Locked locked = lock(*file, LOCK_SH);
  const bool may_join =
      locked == Locked::kYes || (locked == Locked::kHasNone && Lease::join(folder));
  if (!may_join) return busy_with(busy, Lease::holder_of(folder));
  return FolderLock(std::move(*file));
}

std::optional<bool> FolderLock::is_taken(const std::filesystem::path& folder) {
  const auto file = open_folder(folder);
  if (!file) return std::nullopt;
  const Locked locked = lock(*file, LOCK_EX);  // held only briefly, until `file` is closed
  if (locked == Locked::kNo) return true;
  const bool is_free_here = locked == Locked::kYes;
  const auto is_at_work = Lease::is_at_work(folder, is_free_here);
  if (is_at_work || !is_free_here) return is_at_work;
  return false;
}

namespace {

Diagnostic no_lock_folder(const std::filesystem::path& path, const std::string& why,
                          const std::string& help) {
  return {ErrorCode::kCannotCreate,
          {},
          "",
          "the folder for locks '" + path.string() + "' " + why,
          help};
}

constexpr char kOwnFolder[] = "set XDG_RUNTIME_DIR to a folder of your own";

}  // namespace

std::filesystem::path LockFolder::standard_path() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  std::error_code ignored;  // the folder may have been removed with the user's session
  if (runtime && *runtime == '/' && std::filesystem::is_directory(runtime, ignored))
    return std::filesystem::path(runtime) / "retort";
  return "/tmp/retort-" + std::to_string(geteuid());
}

Result<LockFolder> LockFolder::open(std::filesystem::path path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return no_lock_folder(path, std::string("cannot be created: ") + std::strerror(errno),
                          kOwnFolder);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!folder.is_open() || ::fstat(*folder, &status) != 0) {
    const int error = errno;
    const bool is_other = error == ENOTDIR || error == ELOOP;
    const std::string why =
        is_other ? "is a link or a file" : std::string("cannot be opened: ") + std::strerror(error);
    return no_lock_folder(path, why,
                          is_other ? "remove it; or " + std::string(kOwnFolder) : kOwnFolder);
  }
  if (status.st_uid != geteuid())
    return no_lock_folder(path, "belongs to user " + std::to_string(status.st_uid) + ", not to you",
                          kOwnFolder);
  if ((status.st_mode & 077) != 0)
    return no_lock_folder(path, "can be used by others",
                          "restrict it to yourself: chmod 700 '" + path.string() + "'");
  return LockFolder(std::move(path), std::move(folder));
}

Descriptor LockFolder::file(const std::string& name) const {
  return Descriptor(
      ::openat(*folder_, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

std::vector<std::string> LockFolder::names() const {
  std::vector<std::string> names;
  const int again = ::openat(*folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = again < 0 ? nullptr : ::fdopendir(again);
  if (!listing) return names;
  while (const dirent* entry = ::readdir(listing)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  std::ranges::sort(names);
  return names;
}

bool LockFolder::rename(const std::string& from, const std::string& to) const {
  return ::renameat(*folder_, from.c_str(), *folder_, to.c_str()) == 0;
}

void LockFolder::remove(const std::string& name) const { ::unlinkat(*folder_, name.c_str(), 0); }

bool try_lock(const Descriptor& file, bool is_shared) {
  if (!file.is_open()) return false;
  while (::flock(*file, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace runner
