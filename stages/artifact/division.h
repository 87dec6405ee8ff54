#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// The assignment of a data stage's images to parts when its run began. The run stores it as
/// division.gz in the stage's folder. Resuming the run, or evaluating a model that it trained, uses
/// the same division, even if files have changed since. `zcat division.gz` shows one line per
/// image:
///
///   retort division 1
///   root /data/flowers
///   drawn_by shares 0.8, 0, 0.2; seed 42
///   class * daisy
///   train 23412 daisy/image_0001.jpg
///
/// In names, a backslash is written as \\ and a line feed as \n; all other bytes are unchanged.
struct Division {
  struct File {
    std::string name;  ///< relative to the root
    std::uintmax_t bytes = 0;
    bool operator==(const File&) const = default;
  };
  static constexpr std::string_view kNoPart = "none";  ///< the part name for images in no part
  /// The key in `classes` if all parts have the same classes.
  static constexpr std::string_view kEveryPart = "*";

  std::string root;      ///< absolute path with links resolved
  std::string drawn_by;  ///< describes the options that determine the division
  /// The class names by part, in label order.
  std::map<std::string, std::vector<std::string>, std::less<>> classes;
  std::map<std::string, std::vector<File>, std::less<>> parts;

  bool operator==(const Division&) const = default;
};

/// Returns the contents of division.gz. Equal divisions produce equal bytes.
std::string to_gzip(const Division& division);

/// Reads a division.gz. Throws runner::StageError (kDamagedRecord) if the file cannot be read or is
/// not a division.
Division read_division(const std::filesystem::path& file);

/// Returns `folder` in the form of Division::root.
std::string division_root(const std::filesystem::path& folder);

/// Returns the size of a file; 0 if it does not exist.
std::uintmax_t bytes_of_file(const std::filesystem::path& file);

}  // namespace stages
