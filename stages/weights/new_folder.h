#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace stages {

/// A folder that appears with all it is to hold, or not at all: it is filled beside its place, under another name, and
/// removed again unless published.
///
///   NewFolder folder("shapes");
///   folder.create("disc");
///   folder.write("disc/00000.jpg", bytes);
///   folder.publish();
///
/// All throw runner::StageError: kFolderExists where its place is taken by anything but an empty folder, kCannotCreate,
/// kCannotWrite or kDiskFull.
class NewFolder {
 public:
  /// `option` is that of the stage which names the folder, for what goes wrong; empty: none does.
  explicit NewFolder(const std::filesystem::path& folder, std::string option = "");
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void create(const std::string& below);
  void write(const std::string& below, std::span<const std::uint8_t> bytes);
  void write(const std::string& below, std::string_view text);
  void publish();

  /// Where it is filled.
  const std::filesystem::path& draft() const { return draft_; }

 private:
  const std::string option_;
  std::filesystem::path folder_, draft_;
};

}  // namespace stages
