#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Which classes in a folder of class folders belong to a part. kAll: all classes. kAlternating: in
/// name order, train uses every second class starting with the first, validation every fourth
/// starting with the second, and test every fourth starting with the fourth, as in published work
/// on CUB-200-2011. kRandom: as many classes as with kAlternating, chosen at random.
enum class FolderClasses : std::uint8_t { kAll, kAlternating, kRandom };

/// The files and folders that list the images of each part.
struct FewShotSource {
  std::filesystem::path root;
  bool allow_outside = false;
  /// Paths below root; the first that exists is read. Each is a filelist (.json), a split (.csv), a
  /// list of class names (.txt), or a folder of class folders. If none exists, the part is missing.
  std::array<std::vector<std::string>, kSplitParts> candidates;
  FolderClasses classes = FolderClasses::kAll;
  std::uint64_t split_seed = 0;  ///< for kRandom
};

/// One part with its own classes. Labels start at 0, and all images are in the list's part of that
/// name.
struct FewShotPart {
  ImageList list;
  ImageList spare = {};  ///< classes in its folder that it does not use but another part may
  bool is_named = true;  ///< false: the class names are just numbers, meaningless in other parts
  std::string place;     ///< what was read: "base.json", relative to root if it is below root
};

/// Lists all parts. Files are named relative to root, or by their full path if they are outside.
/// They are sorted by class and name, so the order of a list has no effect. All errors are reported
/// together, each at its option: "/root", "/train", "/validation" or "/test". Unreadable files,
/// images that are missing or outside root, and classes or images that two parts share are errors.
runner::Result<std::array<FewShotPart, kSplitParts>> list_few_shot(const FewShotSource& source);

}  // namespace stages
