#include "runner/run/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace runner {
namespace {

Descriptor create(const std::filesystem::path& path) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open()) throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotCreate));
  return file;
}

void write_all(const Descriptor& file, std::string_view text, const WriteSome& write,
               const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t size = write(*file, text.data(), text.size());
    if (size >= 0) text.remove_prefix(size);
    else if (errno != EINTR) throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
  }
}

}  // namespace

Diagnostic write_diagnostic(const std::filesystem::path& path, int error, ErrorCode otherwise) {
  const std::string place = "'" + path.string() + "': " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) {
    return {ErrorCode::kDiskFull, {}, "", "cannot write " + place, "make room, or choose another place with run.dir"};
  }
  return {otherwise,
          {},
          "",
          (otherwise == ErrorCode::kCannotCreate ? "cannot create " : "cannot write ") + place,
          "choose another place with run.dir"};
}

AppendFile::AppendFile(std::filesystem::path path, WriteSome write)
    : path_(std::move(path)), write_(std::move(write)), file_(create(path_)) {}

void AppendFile::append(std::string_view text) { write_all(file_, text, write_, path_); }

void write_atomically(const std::filesystem::path& path, std::string_view text, const WriteSome& write) {
  auto temporary = path;
  temporary += ".part";
  unlink(temporary.c_str());  // of a run that was killed at just this point
  {
    const Descriptor file = create(temporary);
    try {
      write_all(file, text, write, path);
      if (fsync(*file) != 0) throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
    } catch (...) {
      unlink(temporary.c_str());
      throw;
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
  }
  const Descriptor folder(open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) fsync(*folder);  // best effort: not every file system can
}

}  // namespace runner
