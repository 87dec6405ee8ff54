#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/storage.h"
#include "runner/shared/disk/write_error.h"

namespace runner {

/// A new append-only file. Each append is passed to the system at once, so nothing is lost if the
/// program is killed.
class NewFile {
 public:
  /// Creates `path`, which must not exist. Throws WriteError. `storage` is borrowed.
  explicit NewFile(std::filesystem::path path, Storage& storage = disk());
  /// Appends `bytes`. Throws WriteError.
  void append(std::string_view bytes);
  /// Flushes to the disk: everything appended so far survives a power cut once this returns. Throws
  /// WriteError.
  void sync();
  const std::filesystem::path& path() const { return path_; }

 private:
  friend class AtomicFile;
  friend class AtomicFiles;
  NewFile(std::filesystem::path path, std::filesystem::path shown, Storage& storage);

  std::filesystem::path path_, shown_;  // the actual path, and the path in messages
  Storage* storage_;
  Descriptor file_;
};

/// A file that appears in full or not at all, even after a power cut. It is written as <path>.part
/// next to its final location, then renamed over any existing file. If commit() is not called,
/// nothing is left behind.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, Storage& storage = disk());
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// The functions of this class throw WriteError.
  void append(std::string_view bytes) { file_.append(bytes); }
  void commit();
  /// Commits the file and returns it for further appends. Must be called once, last.
  NewFile commit_and_release();

 private:
  std::filesystem::path path_;
  Storage& storage_;
  NewFile file_;
  bool is_renamed_ = false;
};

/// Writes `text` to `path` through an AtomicFile. Throws WriteError.
void write_atomically(const std::filesystem::path& path, std::string_view text,
                      Storage& storage = disk());

/// Several files that each appear in full or not at all, like an AtomicFile, but are flushed
/// together, which takes half as many flushes. No file is visible before commit(). If commit() is
/// not called, nothing is left behind.
class AtomicFiles {
 public:
  explicit AtomicFiles(Storage& storage = disk()) : storage_(&storage) {}
  ~AtomicFiles();
  AtomicFiles(AtomicFiles&& other) noexcept
      : storage_(other.storage_), files_(std::exchange(other.files_, {})) {}
  AtomicFiles& operator=(AtomicFiles&&) = delete;

  /// Writes `text` next to `path`. Each path may be added only once. Throws WriteError, as does
  /// commit().
  void add(std::filesystem::path path, std::string_view text);
  /// Renames the files in the order in which they were added. Afterward, the names in `folders`
  /// also survive a power cut.
  void commit(std::vector<std::filesystem::path> folders = {});

 private:
  struct Written {
    std::filesystem::path path;
    NewFile file;
    bool is_renamed = false;
  };
  Storage* storage_;
  std::vector<Written> files_;
};

/// Flushes the names in `folder`, so they survive a power cut once this returns. Throws WriteError.
/// Does nothing if the file system cannot flush folders.
void sync_folder(const std::filesystem::path& folder, Storage& storage = disk());

/// Creates `folder` and its missing parents. Their names survive a power cut once this returns.
/// Throws std::filesystem::filesystem_error if a folder cannot be created, and WriteError if one
/// cannot be flushed.
void make_folders(const std::filesystem::path& folder, Storage& storage = disk());

/// A folder that appears with all its contents or not at all, even after a power cut. It is filled
/// under a temporary name, flushed to the disk and then renamed. If publish() is not called, it is
/// removed.
///
///   NewFolder folder("shapes");
///   folder.create("disc");
///   folder.write("disc/00000.jpg", bytes);
///   folder.publish();
///
/// All functions throw WriteError: kFolderExists if anything other than an empty folder already
/// exists there, or kCannotCreate, kCannotWrite or kDiskFull. `storage` is borrowed.
class NewFolder {
 public:
  /// Fills the folder next to its final location; parent folders need not exist yet. Errors point
  /// to `option`, the stage option that sets the folder; it is empty if there is none.
  explicit NewFolder(const std::filesystem::path& folder, Storage& storage = disk(),
                     std::string option = "");
  /// Fills the folder in `draft`, which must be on the same disk. Later processes recognize a
  /// killed process's draft by its name. The parent folders of both must exist.
  NewFolder(std::filesystem::path folder, std::filesystem::path draft, Storage& storage = disk());
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void create(const std::string& below);
  void write(const std::string& below, std::span<const std::uint8_t> bytes);
  void write(const std::string& below, std::string_view text);
  /// Flushes everything in draft(), including what others wrote there, and renames it to its final
  /// name.
  void publish();

  /// Returns the folder that is being filled.
  const std::filesystem::path& draft() const { return draft_; }

 private:
  void make(const std::filesystem::path& path);
  [[noreturn]] void fail(Diagnostic diagnostic) const;

  const std::string option_,
      help_;  // help_: advice for any error; empty: the advice of WriteError
  const std::filesystem::path folder_;
  std::filesystem::path draft_;  // empty once published
  Storage& storage_;
  Descriptor held_;  // locked while the folder is filled
};

/// Removes the leftovers of exited processes from `folder`: entries with a name that consists of
/// `hidden`, a PID and possibly more, such as ".photos.4711.part". Keeps every NewFolder still open
/// in a process on another machine or in another container.
void remove_leftovers(const std::filesystem::path& folder, const std::string& hidden,
                      Storage& storage);

/// Removes as much as possible of `path` and everything below it. Links are removed, not followed.
void remove_all(const std::filesystem::path& path, Storage& storage);

}  // namespace runner
