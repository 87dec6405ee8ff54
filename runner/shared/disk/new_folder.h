#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/storage.h"
#include "runner/shared/disk/write_error.h"

namespace runner {

/// A folder that appears with all it is to hold, or not at all, also after a power cut: it is filled under another
/// name, flushed to the disk, and renamed. It is removed again unless published.
///
///   NewFolder folder("shapes");
///   folder.create("disc");
///   folder.write("disc/00000.jpg", bytes);
///   folder.publish();
///
/// Its functions throw WriteError: kFolderExists where its place is taken by anything but an empty folder,
/// kCannotCreate, kCannotWrite or kDiskFull. `storage` is borrowed.
class NewFolder {
 public:
  /// Fills it beside its place, which may lie below folders that are not there yet. `option` is that of the stage which
  /// names the folder, for what goes wrong; empty: none does.
  explicit NewFolder(const std::filesystem::path& folder, Storage& storage = disk(), std::string option = "");
  /// Fills it in `draft`, on the same disk: a name by which a later process finds what a killed one has left. Both lie
  /// in folders that are there.
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

  const std::string option_, help_;  // help_: what to do about anything that goes wrong; empty: as WriteError says
  const std::filesystem::path folder_;
  std::filesystem::path draft_;  // empty: it is published
  Storage& storage_;
  Descriptor held_;  // locked as long as it is filled
};

/// Removes what processes that are gone have left in `folder` under names that are `hidden`, their number, and what may
/// follow: ".photos.4711.part". What a process of another machine or container holds open as a NewFolder stays.
void remove_leftovers(const std::filesystem::path& folder, const std::string& hidden, Storage& storage);

/// Removes what it can of `path` and all below it; links are removed, not followed.
void remove_all(const std::filesystem::path& path, Storage& storage);

}  // namespace runner
