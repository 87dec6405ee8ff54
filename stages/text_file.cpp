#include "stages/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "runner/stage.h"

namespace stages {
namespace {

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

[[noreturn]] void cannot_write(const std::filesystem::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw runner::StageError(full ? runner::ErrorCode::kDiskFull : runner::ErrorCode::kCannotWrite, "",
                           "cannot write '" + path.string() + "': " + std::strerror(error),
                           full ? "free some space, or choose another place with run.dir" : "");
}

}  // namespace

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  const std::string beside = path.string() + ".part";
  ::unlink(beside.c_str());  // of a run that was killed at just this point
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) cannot_write(path, errno);
  int error = write_all(file, text) && ::fsync(file) == 0 ? 0 : errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(beside.c_str());
  cannot_write(path, error);
}

}  // namespace stages
