#include "runner/shared/disk/new_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace runner {
namespace {

std::filesystem::path part_of(const std::filesystem::path& path) { return path.string() + ".part"; }

std::filesystem::path without_leftover(const std::filesystem::path& path, Storage& storage) {
  storage.remove(path);  // of a run that was killed at just this point
  return path;
}

}  // namespace

NewFile::NewFile(std::filesystem::path path, Storage& storage) : NewFile(path, path, storage) {}

NewFile::NewFile(std::filesystem::path path, std::filesystem::path shown, Storage& storage)
    : path_(std::move(path)), shown_(std::move(shown)), storage_(&storage), file_(storage.create(path_)) {
  if (!file_.is_open()) throw WriteError(write_diagnostic(shown_, errno, ErrorCode::kCannotCreate));
}

void NewFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = storage_->write(*file_, bytes.data(), bytes.size());
    if (size >= 0) bytes.remove_prefix(static_cast<std::size_t>(size));
    else if (errno != EINTR) throw WriteError(write_diagnostic(shown_, errno, ErrorCode::kCannotWrite));
  }
}

void NewFile::sync() {
  if (storage_->sync(*file_) != 0) throw WriteError(write_diagnostic(shown_, errno, ErrorCode::kCannotWrite));
}

AtomicFile::AtomicFile(std::filesystem::path path, Storage& storage)
    : path_(std::move(path)), storage_(storage), file_(without_leftover(part_of(path_), storage), path_, storage) {}

AtomicFile::~AtomicFile() {
  if (!is_renamed_) storage_.remove(file_.path());
}

void AtomicFile::commit() {
  file_.sync();
  if (storage_.rename(file_.path(), path_) != 0) {
    throw WriteError(write_diagnostic(path_, errno, ErrorCode::kCannotWrite));
  }
  is_renamed_ = true;
  sync_folder(path_.parent_path(), storage_);
}

NewFile AtomicFile::commit_and_release() {
  commit();
  file_.path_ = path_;
  return std::move(file_);
}

void write_atomically(const std::filesystem::path& path, std::string_view text, Storage& storage) {
  AtomicFile file(path, storage);
  file.append(text);
  file.commit();
}

AtomicFiles::~AtomicFiles() {
  for (const Written& one : files_)
    if (!one.is_renamed) storage_->remove(one.file.path());
}

void AtomicFiles::add(std::filesystem::path path, std::string_view text) {
  NewFile file(without_leftover(part_of(path), *storage_), path, *storage_);
  files_.push_back({std::move(path), std::move(file)});
  try {
    files_.back().file.append(text);
  } catch (const WriteError&) {  // a half is never published, whatever is done about the others
    storage_->remove(files_.back().file.path());
    files_.pop_back();
    throw;
  }
}

void AtomicFiles::commit(std::vector<std::filesystem::path> folders) {
  for (Written& one : files_) one.file.sync();
  for (Written& one : files_) {
    if (storage_->rename(one.file.path(), one.path) != 0)
      throw WriteError(write_diagnostic(one.path, errno, ErrorCode::kCannotWrite));
    one.is_renamed = true;
    if (std::ranges::find(folders, one.path.parent_path()) == folders.end()) folders.push_back(one.path.parent_path());
  }
  for (const std::filesystem::path& folder : folders) sync_folder(folder, *storage_);
}

void sync_folder(const std::filesystem::path& folder, Storage& storage) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const Descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open() || storage.sync(*opened) == 0 || errno == EINVAL || errno == ENOTSUP) return;
  throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
}

}  // namespace runner
