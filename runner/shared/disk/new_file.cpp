#include "runner/shared/disk/new_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace runner {
namespace {

std::filesystem::path part_of(const std::filesystem::path& path) { return path.string() + ".part"; }

/// Throws if `path` is a device (such as /dev/null), a pipe or a socket, which would be replaced
/// with a file by a rename. Otherwise returns `path`.
std::filesystem::path no_device(std::filesystem::path path) {
  using Type = std::filesystem::file_type;
  std::error_code error;
  const Type type = std::filesystem::symlink_status(path, error).type();
  const bool is_device = type == Type::character || type == Type::block;
  if (is_device || type == Type::fifo || type == Type::socket)
    throw WriteError({ErrorCode::kCannotWrite,
                      {},
                      "",
                      "cannot write '" + path.string() + "': it is a " +
                          (is_device            ? "device"
                           : type == Type::fifo ? "pipe"
                                                : "socket") +
                          ", not a file",
                      "give a file, or redirect standard output"});
  return path;
}

std::filesystem::path without_leftover(const std::filesystem::path& path, Storage& storage) {
  storage.remove(path);  // left behind by a run that was killed at exactly this point
  return path;
}

}  // namespace

NewFile::NewFile(std::filesystem::path path, Storage& storage) : NewFile(path, path, storage) {}

NewFile::NewFile(std::filesystem::path path, std::filesystem::path shown, Storage& storage)
    : path_(std::move(path)),
      shown_(std::move(shown)),
      storage_(&storage),
      file_(storage.create(path_)) {
  if (!file_.is_open()) throw WriteError(write_diagnostic(shown_, errno, ErrorCode::kCannotCreate));
}

void NewFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = storage_->write(*file_, bytes.data(), bytes.size());
    if (size >= 0) bytes.remove_prefix(static_cast<std::size_t>(size));
    else if (errno != EINTR)
      throw WriteError(write_diagnostic(shown_, errno, ErrorCode::kCannotWrite));
  }
}

void NewFile::sync() {
  if (storage_->sync(*file_) != 0)
    throw WriteError(write_diagnostic(shown_, errno, ErrorCode::kCannotWrite));
}

AtomicFile::AtomicFile(std::filesystem::path path, Storage& storage)
    : path_(no_device(std::move(path))),
      storage_(storage),
      file_(without_leftover(part_of(path_), storage), path_, storage) {}

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
  path = no_device(std::move(path));
  NewFile file(without_leftover(part_of(path), *storage_), path, *storage_);
  files_.push_back({std::move(path), std::move(file)});
  try {
    files_.back().file.append(text);
  } catch (const WriteError&) {  // a half-written file is never published, even if the others are
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
    if (std::ranges::find(folders, one.path.parent_path()) == folders.end())
      folders.push_back(one.path.parent_path());
  }
  for (const std::filesystem::path& folder : folders) sync_folder(folder, *storage_);
}

void sync_folder(const std::filesystem::path& folder, Storage& storage) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const Descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open() || storage.sync(*opened) == 0 || errno == EINVAL || errno == ENOTSUP)
    return;
  throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
}

namespace fs = std::filesystem;

void make_folders(const fs::path& folder, Storage& storage) {
  // A path that ends in a slash is its own parent, without that slash.
  if (!folder.has_filename() && folder.has_relative_path())
    return make_folders(folder.parent_path(), storage);
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  make_folders(folder.parent_path(), storage);
  if (storage.make_folder(folder) == 0) return sync_folder(folder.parent_path(), storage);
  const int error = errno == EEXIST ? ENOTDIR : errno;
  if (error == ENOTDIR && fs::is_directory(folder, ignored))
    return;  // another process has just created it
  throw fs::filesystem_error("cannot create folder", folder,
                             std::error_code(error, std::generic_category()));
}

namespace {

namespace fs = std::filesystem;

/// Removes a trailing slash, which would leave the folder without a name.
fs::path without_slash(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

/// Returns the name prefix of the drafts of `folder`, up to the PID.
std::string hidden_name(const fs::path& folder) { return "." + folder.filename().string() + "."; }

fs::path draft_beside(const fs::path& folder) {
  return fs::absolute(folder).parent_path() /
         (hidden_name(folder) + std::to_string(::getpid()) + ".part");
}

/// True if `rest`, the name without its hidden prefix, is the PID of an exited process, with an
/// optional ".part".
bool is_of_the_dead(std::string_view rest) {
  if (rest.ends_with(".part")) rest.remove_suffix(5);
  pid_t process = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), process);
  if (error != std::errc{} || end != rest.data() + rest.size() || process <= 0) return false;
  return ::kill(process, 0) != 0 && errno == ESRCH;
}

/// Opens `path` and locks it exclusively. The descriptor is closed if another process holds the
/// lock.
Descriptor locked(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.is_open() && ::flock(*file, LOCK_EX | LOCK_NB) != 0) file.close();
  return file;
}

/// The files and folders of a tree. A folder comes before its contents.
struct MadeTree {
  std::vector<fs::path> files, folders;
};

MadeTree tree_of(const fs::path& root) {
  MadeTree tree{.files = {}, .folders = {root}};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::file_type type = entry->symlink_status(error).type();  // a link consists only of a
                                                                     // name
    if (type == fs::file_type::directory) tree.folders.push_back(entry->path());
    if (type == fs::file_type::regular) tree.files.push_back(entry->path());
  }
  if (error) throw WriteError(write_diagnostic(root, error.value(), ErrorCode::kCannotWrite));
  return tree;
}

Descriptor opened(const fs::path& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

/// Flushes the tree to the disk, so everything in it survives a power cut once this returns.
void sync_tree(const fs::path& root, Storage& storage) {
  const MadeTree tree = tree_of(root);
  // Start writing all files before waiting for the first one. This is ten times as fast for
  // thousands of small files.
  for (const fs::path& path : tree.files)
    ::sync_file_range(*opened(path), 0, 0, SYNC_FILE_RANGE_WRITE);
  for (const fs::path& path : tree.files) {
    const Descriptor file = opened(path);
    if (!file.is_open() || storage.sync(*file) != 0)
      throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
  }
  for (auto folder = tree.folders.rbegin(); folder != tree.folders.rend(); ++folder)
    sync_folder(*folder, storage);
}

}  // namespace

NewFolder::NewFolder(const fs::path& folder, Storage& storage, std::string option)
    : option_(std::move(option)),
      help_("free up space, or choose another folder"),
      folder_(without_slash(folder)),
      storage_(storage) {
  std::error_code error;
  const bool exists = fs::exists(fs::symlink_status(folder_, error));
  if (exists && !(fs::is_directory(folder_, error) && fs::is_empty(folder_, error) && !error)) {
    throw WriteError({ErrorCode::kFolderExists,
                      {},
                      option_,
                      "'" + folder_.string() + "' already exists",
                      "choose another folder, or remove this one"});
  }
  const fs::path draft = draft_beside(folder_);
  fs::create_directories(draft.parent_path(), error);
  if (error) fail(write_diagnostic(draft.parent_path(), error.value(), ErrorCode::kCannotCreate));
  remove_leftovers(draft.parent_path(), hidden_name(folder_), storage_);
  make(draft);
  draft_ = draft;
  held_ = locked(draft_);
}

NewFolder::NewFolder(fs::path folder, fs::path draft, Storage& storage)
    : folder_(std::move(folder)), storage_(storage) {
  make(draft);
  draft_ = std::move(draft);
}

NewFolder::~NewFolder() {
  if (!draft_.empty()) remove_all(draft_, storage_);
}

void NewFolder::fail(Diagnostic diagnostic) const {
  diagnostic.pointer = option_;
  if (!help_.empty()) diagnostic.help = help_;
  throw WriteError(diagnostic);
}

void NewFolder::make(const fs::path& path) {
  if (storage_.make_folder(path) != 0)
    fail(write_diagnostic(path, errno, ErrorCode::kCannotCreate));
}

void NewFolder::create(const std::string& below) { make(draft_ / below); }

void NewFolder::write(const std::string& below, std::span<const std::uint8_t> bytes) {
  write(below, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void NewFolder::write(const std::string& below, std::string_view text) {
  try {
    NewFile(draft_ / below, storage_).append(text);
  } catch (const WriteError& error) {
    fail(error.diagnostic());
  }
}

void NewFolder::publish() {
  try {
    sync_tree(draft_, storage_);
  } catch (const WriteError& error) {
    fail(error.diagnostic());
  }
  if (storage_.rename(draft_, folder_) != 0)  // this also replaces an empty folder
    fail(write_diagnostic(folder_, errno, ErrorCode::kCannotWrite));
  draft_.clear();
  try {
    sync_folder(folder_.parent_path(), storage_);
  } catch (const WriteError& error) {
    fail(error.diagnostic());
  }
}

void remove_leftovers(const fs::path& folder, const std::string& hidden, Storage& storage) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(hidden) && is_of_the_dead(std::string_view(name).substr(hidden.size())))
      leftovers.push_back(entry->path());
  }
  for (const fs::path& leftover : leftovers)
    if (const Descriptor own = locked(leftover); own.is_open()) remove_all(leftover, storage);
}

void remove_all(const fs::path& path, Storage& storage) {
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(path, error))) {
    std::vector<fs::path> inside;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error))
      inside.push_back(entry->path());
    for (const fs::path& item : inside) remove_all(item, storage);
  }
  storage.remove(path);
}

}  // namespace runner
