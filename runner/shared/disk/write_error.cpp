#include "runner/shared/disk/write_error.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"

namespace runner {

void LateStorage::write_kept() {
  if (is_resolved_) return;
  for (const std::filesystem::path& path : files_) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.is_open() && storage_.sync(*file) != 0)
      throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
  }
  for (const std::filesystem::path& folder : folders_) sync_folder(folder, storage_);
  is_resolved_ = true;
  files_.clear();
  folders_.clear();
}

int LateStorage::create(const std::filesystem::path& path) {
  const int file = storage_.create(path);
  if (file < 0 || is_resolved_) return file;
  files_.insert(path);
  folders_.insert(path.parent_path());
  return file;
}

int LateStorage::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  const int answer = storage_.rename(from, to);
  if (answer != 0 || is_resolved_) return answer;
  files_.erase(from);
  files_.insert(to);
  folders_.insert(to.parent_path());
  return answer;
}

int LateStorage::make_folder(const std::filesystem::path& path) {
  const int answer = storage_.make_folder(path);
  if (answer == 0 && !is_resolved_) folders_.insert(path.parent_path());
  return answer;
}

int LateStorage::remove(const std::filesystem::path& path) {
  files_.erase(path);
  return storage_.remove(path);
}

Diagnostic write_diagnostic(const std::filesystem::path& path, int error, ErrorCode otherwise) {
  const std::string place = "'" + path.string() + "': " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) {
    return {ErrorCode::kDiskFull,
            {},
            "",
            "cannot write " + place,
            "free up space, or choose another location with run.dir"};
  }
  return {otherwise,
          {},
          "",
          (otherwise == ErrorCode::kCannotCreate ? "cannot create " : "cannot write ") + place,
          error == EFBIG ? "it reached the file size limit: raise it with `ulimit -f`"
                         : "choose another location with run.dir"};
}

}  // namespace runner
