#include "stages/weights/new_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runner/stage/stage.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

[[noreturn]] void fail(const std::string& option, ErrorCode code, const fs::path& path, const std::error_code& error) {
  const bool full = error == std::errc::no_space_on_device;
  throw StageError(full ? ErrorCode::kDiskFull : code, "cannot write '" + path.string() + "': " + error.message())
      .at(option);
}

void create_folder(const fs::path& folder, const std::string& option) {
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    fail(option, ErrorCode::kCannotCreate, folder, error ? error : std::make_error_code(std::errc::file_exists));
  }
}

void write_file(const fs::path& path, std::span<const std::uint8_t> bytes, const std::string& option) {
  const auto system_error = [] { return std::error_code(errno, std::generic_category()); };
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) fail(option, ErrorCode::kCannotCreate, path, system_error());
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::error_code error = system_error();
      ::close(file);
      fail(option, ErrorCode::kCannotWrite, path, error);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (::close(file) != 0) fail(option, ErrorCode::kCannotWrite, path, system_error());
}

}  // namespace

// A trailing slash would leave it without a name.
NewFolder::NewFolder(const fs::path& folder, std::string option)
    : option_(std::move(option)), folder_(folder.has_filename() ? folder : folder.parent_path()) {
  std::error_code error;
  const bool exists = fs::exists(fs::symlink_status(folder_, error));
  if (exists && !(fs::is_directory(folder_, error) && fs::is_empty(folder_, error) && !error)) {
    throw StageError(ErrorCode::kFolderExists, "'" + folder_.string() + "' exists already")
        .at(option_)
        .with_help("choose another folder, or remove this one");
  }
  const fs::path above = fs::absolute(folder_).parent_path();
  fs::create_directories(above, error);
  if (error) fail(option_, ErrorCode::kCannotCreate, above, error);
  const fs::path draft = above / ("." + folder_.filename().string() + "." + std::to_string(::getpid()) + ".part");
  create_folder(draft, option_);
  draft_ = draft;
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!draft_.empty()) fs::remove_all(draft_, ignored);
}

void NewFolder::create(const std::string& below) { create_folder(draft_ / below, option_); }

void NewFolder::write(const std::string& below, std::span<const std::uint8_t> bytes) {
  write_file(draft_ / below, bytes, option_);
}

void NewFolder::write(const std::string& below, std::string_view text) {
  write(below, std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

void NewFolder::publish() {
  std::error_code error;
  fs::rename(draft_, folder_, error);  // over an empty folder too
  if (error) fail(option_, ErrorCode::kCannotCreate, folder_, error);
  draft_.clear();
}

}  // namespace stages
