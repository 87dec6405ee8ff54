#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Which classes of a class folder a part takes: all of them; by the order of their names, train
/// every second from the first, validation every fourth from the second and test every fourth from
/// the fourth, as CUB-200-2011 is divided in publications; or the same by an order that is drawn.
enum class FolderClasses : std::uint8_t { kAll, kAlternating, kRandom };

/// Where the images of each part are listed.
struct FewShotSource {
  std::filesystem::path root;
  bool allow_outside = false;
  /// Below root: the first of these that is there is read. A filelist (.json), a split (.csv),
  /// names of classes (.txt), or a folder of class folders. None at all: there is no such part.
  std::array<std::vector<std::string>, kSplitParts> candidates;
  FolderClasses classes = FolderClasses::kAll;
  std::uint64_t split_seed = 0;  ///< of kRandom
};

/// One of the parts, with classes of its own: labels count from 0, and all images are in the list's
/// part of that name.
struct FewShotPart {
  ImageList list;
  ImageList spare =
      {};  ///< what its folder has of classes that it does not take, and another part may
  bool is_named =
      true;  ///< false: the classes are called by numbers, which say nothing in another part
  std::string place;  ///< what was read: "base.json", below root where it lies there
};

/// Lists all parts: files are named below root, or with their whole path where they lie outside;
/// they are sorted by class and name, so that the order of a list changes nothing. Everything wrong
/// is reported at once, the pointer saying at which option, "/root", "/train", "/validation" or
/// "/test": what cannot be read, images that are not there or lead out of root, and classes or
/// images that two parts share.
runner::Result<std::array<FewShotPart, kSplitParts>> list_few_shot(const FewShotSource& source);

}  // namespace stages
