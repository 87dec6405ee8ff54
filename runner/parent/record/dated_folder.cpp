#include "runner/parent/record/dated_folder.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "runner/shared/disk/make_folders.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/disk/write_error.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

std::string local_time(std::chrono::system_clock::time_point now, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

/// Makes and claims one folder.
class DatedFolder {
 public:
  DatedFolder(const FolderWish& wish, Storage& storage) : wish_(wish), storage_(storage) {}

  Result<fs::path> given(const fs::path& path) const {
    if (storage_.make_folder(path) == 0) return claim(path);
    if (errno != EEXIST) return cannot_create(path, errno);
    std::error_code error;
    if (!fs::is_directory(path, error)) return cannot_create(path, EEXIST);
    const bool is_empty = fs::is_empty(path, error);
    if (error) return cannot_create(path, error.value());
    return is_empty ? claim(path) : taken(path);
  }

  /// One in `day` that is called `time`, or time-1, time-2 … where that is taken.
  Result<fs::path> dated(const fs::path& day, const std::string& time) const {
    for (int suffix = 0;; ++suffix) {
      const fs::path path = day / (suffix == 0 ? time : time + "-" + std::to_string(suffix));
      if (storage_.make_folder(path) == 0) return claim(path);
      if (errno != EEXIST) return cannot_create(path, errno);
    }
  }

  Diagnostic cannot_create(const fs::path& path, int error) const {
    Diagnostic diagnostic = write_diagnostic(path, error, ErrorCode::kCannotCreate);
    if (!wish_.given.empty()) diagnostic.pointer = pointer();
    return diagnostic;
  }

  std::string pointer() const {
    std::string result = "/" + wish_.option;
    std::ranges::replace(result, '.', '/');
    return result;
  }

 private:
  /// Claims the empty folder `path`: of two that both found it empty, one makes the mark.
  Result<fs::path> claim(const fs::path& path) const {
    const fs::path mark = path / wish_.mark;
    if (storage_.make_folder(mark) != 0) return errno == EEXIST ? taken(path) : cannot_create(mark, errno);
    // The names of the folder and of its mark survive a power cut.
    sync_folder(path.parent_path(), storage_);
    sync_folder(path, storage_);
    return path;
  }

  Result<fs::path> taken(const fs::path& path) const {
    const bool is_ours = fs::exists(path / wish_.mark);
    return Diagnostic{ErrorCode::kRunFolderTaken,
                      {},
                      pointer(),
                      "'" + path.string() + "' " + (is_ours ? "already contains " + wish_.what : "is not empty"),
                      "choose another with " + wish_.option + ", or leave " + wish_.option + " out for a fresh one"};
  }

  const FolderWish& wish_;
  Storage& storage_;
};

}  // namespace

Result<fs::path> create_dated_folder(const FolderWish& wish, std::chrono::system_clock::time_point now,
                                     Storage& storage) {
  const DatedFolder folder(wish, storage);
  const fs::path given = wish.given.empty() ? "" : (wish.base / wish.given).lexically_normal();
  const fs::path day = wish.base / wish.below / local_time(now, "%Y-%m-%d");
  try {
    make_folders(given.empty() ? day : given.parent_path(), storage);
    return given.empty() ? folder.dated(day, local_time(now, "%H-%M-%S")) : folder.given(given);
  } catch (const fs::filesystem_error& error) {
    return folder.cannot_create(given.empty() ? day : given, error.code().value());
  } catch (const WriteError& error) {
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.pointer = folder.pointer();
    return diagnostic;
  }
}

}  // namespace runner
