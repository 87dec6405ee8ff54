#include "stages/fetch/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/value/parse_json.h"

namespace stages {

namespace fs = std::filesystem;
using nlohmann::json;
using runner::ErrorCode;

PartialFile::PartialFile(const fs::path& file, std::string url, runner::Storage& storage)
    : path_(file.string() + ".part"),
      note_(path_.string() + ".json"),
      url_(std::move(url)),
      storage_(storage) {
  struct stat status = {};
  if (::lstat(path_.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode)) bytes_ = status.st_size;
    else begin_anew();  // not a regular file
  }
  if (bytes_ > 0) read_note();
}

void PartialFile::begin_anew() {
  file_ = {};
  for (const fs::path& path : {path_, note_}) {
    if (storage_.remove(path) != 0 && errno != ENOENT) cannot_write(path, errno);
  }
  bytes_ = 0;
  validator_.clear();
}

void PartialFile::note(const std::string& validator) {
  validator_ = validator;
  runner::write_atomically(
      note_, json{{"url_sha256", runner::sha256(url_)}, {"validator", validator}}.dump() + "\n",
      storage_);
}

void PartialFile::append(std::string_view bytes) {
  if (!file_.is_open()) open();
  while (!bytes.empty()) {
    const ssize_t size = storage_.write(*file_, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) cannot_write(path_, errno);
    bytes_ += size;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

void PartialFile::publish(const fs::path& file) {
  if (!file_.is_open()) open();
  if (storage_.sync(*file_) != 0) cannot_write(path_, errno);
  file_ = {};
  if (storage_.rename(path_, file) != 0) cannot_write(file, errno, ErrorCode::kCannotCreate);
  storage_.remove(note_);
  runner::sync_folder(file.parent_path(), storage_);
}

void PartialFile::cannot_write(const fs::path& path, int error, ErrorCode otherwise) {
  throw runner::StageError(
      error == ENOSPC || error == EDQUOT ? ErrorCode::kDiskFull : otherwise,
      "cannot write '" + path.string() + "': " + std::generic_category().message(error))
      .with_help("free up space, or choose another folder");
}

void PartialFile::open() {
  file_ = runner::Descriptor(
      bytes_ > 0 ? ::open(path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC)
                 : (storage_.remove(path_), storage_.create(path_)));
  if (!file_.is_open()) cannot_write(path_, errno, ErrorCode::kCannotCreate);
}

void PartialFile::read_note() {
  constexpr std::uintmax_t kLargestNote = 16 << 10;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(note_, error);
  if (error || size > kLargestNote) return;
  std::ifstream file = runner::open_regular(note_);
  const json note = runner::parse_json<json>(file);
  if (!note.is_object() || note.value("url_sha256", json()) != runner::sha256(url_)) return;
  const auto validator = note.find("validator");
  if (validator != note.end() && validator->is_string()) validator_ = validator->get<std::string>();
  if (std::ranges::any_of(validator_, [](unsigned char c) { return c < ' '; })) validator_.clear();
}

}  // namespace stages
