#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// How the images of a data stage were divided into parts when its run began. The run stores it as
/// division.gz in the stage's folder. Resuming the run or evaluating what it trained uses the same
/// division, whatever has happened to the files since. `zcat division.gz` shows it, one line per
/// image:
///
///   retort division 1
///   root /data/flowers
///   drawn_by shares 0.8, 0, 0.2; seed 42
///   class * daisy
///   train 23412 daisy/image_0001.jpg
///
/// A backslash and a line feed in a name are written \\ and \n; all other bytes are unchanged.
struct Division {
  struct File {
    std::string name;  ///< relative to the root
    std::uintmax_t bytes = 0;
    bool operator==(const File&) const = default;
  };
  static constexpr std::string_view kNoPart = "none";  ///< for images that are in no part
  static constexpr std::string_view kEveryPart = "*";  ///< whose classes are those of all parts

  std::string root;      ///< absolute, with links resolved
  std::string drawn_by;  ///< the options that determine the division, in words
  std::map<std::string, std::vector<std::string>, std::less<>>
      classes;  ///< by part, in the order of their labels
  std::map<std::string, std::vector<File>, std::less<>> parts;

  bool operator==(const Division&) const = default;
};

/// The contents of division.gz; equal divisions give equal bytes.
std::string to_gzip(const Division& division);

/// Throws runner::StageError, kDamagedRecord, if the file cannot be read or is no division.
Division read_division(const std::filesystem::path& file);

/// The form of `folder` that Division::root uses.
std::string division_root(const std::filesystem::path& folder);

/// The file's size; 0 if it does not exist.
std::uintmax_t bytes_of_file(const std::filesystem::path& file);

}  // namespace stages
