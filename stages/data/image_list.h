#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/result.h"

namespace stages {

enum class Part : std::uint8_t { kTrain, kValidation, kTest };
inline constexpr std::size_t kParts = 3;

/// "train", "validation" or "test".
std::string_view name(Part part);

/// A file and its class.
struct ImageFile {
  std::string name;  ///< below the root: "iris/image_0401.jpg"
  std::int64_t label = 0;
};

/// The image files below a root, from their names alone: none has been opened.
struct ImageList {
  std::filesystem::path root;
  std::vector<std::string> classes;                  ///< folder names sorted bytewise; a label is a position here
  std::array<std::vector<ImageFile>, kParts> parts;  ///< sorted by name; all in the first when not `divided`
  bool divided = false;                              ///< root has train, validation or test folders
  std::vector<std::string> ignored;                  ///< folders beside train, validation and test

  std::vector<ImageFile>& operator[](Part part) { return parts[static_cast<std::size_t>(part)]; }
  const std::vector<ImageFile>& operator[](Part part) const { return parts[static_cast<std::size_t>(part)]; }
};

/// Does it end in .jpg, .jpeg or .png, in any case, and is not hidden?
bool is_image_name(std::string_view name);

/// Lists root/CLASS/IMAGE, or root/{train,validation,test}/CLASS/IMAGE, where IMAGE ends in .jpg, .jpeg or .png in any
/// case and is not hidden. Everything wrong is reported at once, without a place: a missing folder, no classes, classes
/// without images, a class of validation or test that train lacks, and, unless `allow_outside`, links out of root.
runner::Result<ImageList> list_images(const std::filesystem::path& root, bool allow_outside);

/// Shares of each class; they add up to at most 1.
struct SplitOptions {
  double train = 0.8, validation = 0, test = 0.2;
};

/// Divides the images of each class among the parts, at random as a function of `seed`, by largest remainder. Each part
/// with a share gets an image of every class that has enough of them, train before test before validation.
void split(ImageList& list, const SplitOptions& options, std::uint64_t seed);

}  // namespace stages
