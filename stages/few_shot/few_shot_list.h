#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Which classes of a class folder a part uses. kAll: all of them. kAlternating: by name order,
/// train every second from the first, validation every fourth from the second and test every fourth
/// from the fourth, as publications divide CUB-200-2011. kRandom: the same division of a random
/// order.
enum class FolderClasses : std::uint8_t { kAll, kAlternating, kRandom };

/// Where the images of each part are listed.
struct FewShotSource {
  std::filesystem::path root;
  bool allow_outside = false;
  /// Paths below root; the first that exists is read. A filelist (.json), a split (.csv), class
  /// names (.txt), or a folder of class folders. If none exists, there is no such part.
  std::array<std::vector<std::string>, kSplitParts> candidates;
  FolderClasses classes = FolderClasses::kAll;
  std::uint64_t split_seed = 0;  ///< of kRandom
};

/// One part, with its own classes: labels count from 0, and all images are in the list's part of
/// that name.
struct FewShotPart {
  ImageList list;
  ImageList spare = {};  ///< classes in its folder that it does not use, and another part may
  bool is_named =
      true;  ///< false: the classes are named by numbers, which mean nothing in another part
  std::string place;  ///< what was read: "base.json", relative to root if it lies below root
};

/// Lists all parts. Files are named relative to root, or with their full path if they lie outside.
/// They are sorted by class and name, so the order of a list has no effect. All errors are reported
/// at once; the pointer names the option, "/root", "/train", "/validation" or "/test". Errors: what
/// cannot be read, images that are missing or lead out of root, and classes or images that two
/// parts share.
runner::Result<std::array<FewShotPart, kSplitParts>> list_few_shot(const FewShotSource& source);

}  // namespace stages
