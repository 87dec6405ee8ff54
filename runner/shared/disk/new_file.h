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

/// A file that is made here and only ever grows. Each append is handed to the system at once, so a
/// kill loses nothing.
class NewFile {
 public:
  /// Makes `path`; it must not exist. Throws WriteError. `storage` is borrowed.
  explicit NewFile(std::filesystem::path path, Storage& storage = disk());
  /// Throws WriteError.
  void append(std::string_view bytes);
  /// What was appended survives a power cut from here on. Throws WriteError.
  void sync();
  const std::filesystem::path& path() const { return path_; }

 private:
  friend class AtomicFile;
  friend class AtomicFiles;
  NewFile(std::filesystem::path path, std::filesystem::path shown, Storage& storage);

  std::filesystem::path path_, shown_;  // where it is; what messages call it
  Storage* storage_;
  Descriptor file_;
};

/// A file that appears whole or not at all, also after a power cut: it is written beside itself, as
/// <path>.part, and renamed over what was there. Without commit() nothing is left of it.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, Storage& storage = disk());
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws WriteError, as the others here.
  void append(std::string_view bytes) { file_.append(bytes); }
  void commit();
  /// Commits it and hands it over, to be appended to; to be called once, last.
  NewFile commit_and_release();

 private:
  std::filesystem::path path_;
  Storage& storage_;
  NewFile file_;
  bool is_renamed_ = false;
};

/// Writes `path` as an AtomicFile that holds `text`. Throws WriteError.
void write_atomically(const std::filesystem::path& path, std::string_view text,
                      Storage& storage = disk());

/// Several files that appear as AtomicFiles do, each whole or not at all, but reach the disk
/// together: half the flushes of one after the other. Before commit() nothing of them is seen, and
/// without it nothing is left.
class AtomicFiles {
 public:
  explicit AtomicFiles(Storage& storage = disk()) : storage_(&storage) {}
  ~AtomicFiles();
  AtomicFiles(AtomicFiles&& other) noexcept
      : storage_(other.storage_), files_(std::exchange(other.files_, {})) {}
  AtomicFiles& operator=(AtomicFiles&&) = delete;

  /// Writes `text` beside `path`, where nothing was added to before. Throws WriteError, as
  /// commit().
  void add(std::filesystem::path path, std::string_view text);
  /// In the order in which they were added. The names in `folders` survive a power cut too, as
  /// theirs do.
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

/// The names in `folder` survive a power cut from here on. Throws WriteError; where folders cannot
/// be flushed there is nothing to do.
void sync_folder(const std::filesystem::path& folder, Storage& storage = disk());

/// Makes `folder` and those above it that are missing. Each one's name survives a power cut from
/// here on. Throws std::filesystem::filesystem_error where one cannot be made, WriteError where one
/// cannot be flushed.
void make_folders(const std::filesystem::path& folder, Storage& storage = disk());

/// A folder that appears with all it is to hold, or not at all, also after a power cut: it is
/// filled under another name, flushed to the disk, and renamed. It is removed again unless
/// published.
///
///   NewFolder folder("shapes");
///   folder.create("disc");
///   folder.write("disc/00000.jpg", bytes);
///   folder.publish();
///
/// Its functions throw WriteError: kFolderExists where its place is taken by anything but an empty
/// folder, kCannotCreate, kCannotWrite or kDiskFull. `storage` is borrowed.
class NewFolder {
 public:
  /// Fills it beside its place, which may lie below folders that are not there yet. `option` is
  /// that of the stage which names the folder, for what goes wrong; empty: none does.
  explicit NewFolder(const std::filesystem::path& folder, Storage& storage = disk(),
                     std::string option = "");
  /// Fills it in `draft`, on the same disk: a name by which a later process finds what a killed one
  /// has left. Both lie in folders that are there.
  NewFolder(std::filesystem::path folder, std::filesystem::path draft, Storage& storage = disk());
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void create(const std::string& below);
  void write(const std::string& below, std::span<const std::uint8_t> bytes);
  void write(const std::string& below, std::string_view text);
  /// Flushes all that is in draft(), whoever wrote it, and gives it its name.
  void publish();

  /// Where it is filled.
  const std::filesystem::path& draft() const { return draft_; }

 private:
  void make(const std::filesystem::path& path);
  [[noreturn]] void fail(Diagnostic diagnostic) const;

  const std::string option_,
      help_;  // help_: what to do about anything that goes wrong; empty: as WriteError says
  const std::filesystem::path folder_;
  std::filesystem::path draft_;  // empty: it is published
  Storage& storage_;
  Descriptor held_;  // locked as long as it is filled
};

/// Removes what processes that are gone have left in `folder` under names that are `hidden`, their
/// number, and what may follow: ".photos.4711.part". What a process of another machine or container
/// holds open as a NewFolder stays.
void remove_leftovers(const std::filesystem::path& folder, const std::string& hidden,
                      Storage& storage);

/// Removes what it can of `path` and all below it; links are removed, not followed.
void remove_all(const std::filesystem::path& path, Storage& storage);

}  // namespace runner
