#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// How the images of a data stage were divided among the parts when its run began. The run keeps it
/// as division.gz in the stage's folder, and whatever goes on with the run, or evaluates what it
/// has trained, divides in the same way, whatever has happened to the files since. `zcat
/// division.gz` shows it, a line for each image:
///
///   retort division 1
///   root /data/flowers
///   drawn_by shares 0.8, 0, 0.2; seed 42
///   class * daisy
///   train 23412 daisy/image_0001.jpg
///
/// A backslash and a line feed in a name are written \\ and \n; whatever else it is made of is left
/// as it is.
struct Division {
  struct File {
    std::string name;  ///< below the root
    std::uintmax_t bytes = 0;
    bool operator==(const File&) const = default;
  };
  static constexpr std::string_view kNoPart = "none";  ///< of images that are in no part
  static constexpr std::string_view kEveryPart = "*";  ///< whose classes are those of all parts

  std::string root;      ///< whole, and no link is on its way
  std::string drawn_by;  ///< the options that the division follows from, in words
  std::map<std::string, std::vector<std::string>, std::less<>>
      classes;  ///< by part, in the order of their labels
  std::map<std::string, std::vector<File>, std::less<>> parts;

  bool operator==(const Division&) const = default;
};

/// The contents of division.gz, the same bytes for the same division.
std::string to_gzip(const Division& division);

/// Throws runner::StageError, kDamagedRecord, where the file cannot be read or is none.
Division read_division(const std::filesystem::path& file);

/// `folder` as Division::root names it.
std::string division_root(const std::filesystem::path& folder);

/// 0 for what is not there.
std::uintmax_t bytes_of_file(const std::filesystem::path& file);

}  // namespace stages
