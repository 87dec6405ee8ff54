#include "runner/shared/disk/lock_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace runner {
namespace {

Diagnostic no_lock_folder(const std::filesystem::path& path, const std::string& why, const std::string& help) {
  return {ErrorCode::kCannotCreate, {}, "", "the folder for locks '" + path.string() + "' " + why, help};
}

constexpr char kOwnFolder[] = "set XDG_RUNTIME_DIR to a folder of your own";

}  // namespace

std::filesystem::path LockFolder::standard_path() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  std::error_code ignored;  // it may have gone with the session that it was of
  if (runtime && *runtime == '/' && std::filesystem::is_directory(runtime, ignored))
    return std::filesystem::path(runtime) / "retort";
  return "/tmp/retort-" + std::to_string(geteuid());
}

Result<LockFolder> LockFolder::open(std::filesystem::path path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return no_lock_folder(path, std::string("cannot be made: ") + std::strerror(errno), kOwnFolder);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!folder.is_open() || ::fstat(*folder, &status) != 0) {
    const int error = errno;
    const bool is_other = error == ENOTDIR || error == ELOOP;
    const std::string why = is_other ? "is a link or a file" : std::string("cannot be opened: ") + std::strerror(error);
    return no_lock_folder(path, why, is_other ? "remove it; or " + std::string(kOwnFolder) : kOwnFolder);
  }
  if (status.st_uid != geteuid())
    return no_lock_folder(path, "belongs to user " + std::to_string(status.st_uid) + ", not to you", kOwnFolder);
  if ((status.st_mode & 077) != 0)
    return no_lock_folder(path, "can be used by others", "take it for yourself: chmod 700 '" + path.string() + "'");
  return LockFolder(std::move(path), std::move(folder));
}

Descriptor LockFolder::file(const std::string& name) const {
  return Descriptor(::openat(*folder_, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
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
