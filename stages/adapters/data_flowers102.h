#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// The published lists of Oxford Flowers 102 used for training, validation and testing.
enum class FlowerParts : std::uint8_t {
  kPublished,           ///< train on trnid, validate on valid, test on tstid
  kTrainAndValidation,  ///< train on trnid followed by valid, do not validate, test on tstid
  kSwapped,             ///< train on tstid, validate on valid, test on trnid
};

/// Lists Oxford Flowers 102 in root/ or root/flowers-102/, in the order of its lists. The images
/// are jpg/image_00001.jpg, …; imagelabels.mat contains a label from 1 to 102 for each image;
/// setid.mat contains the image numbers for training, validation and test, each at most once. The
/// largest label is the number of classes. An optional cat_to_name.json, {"1": "pink primrose", …},
/// next to these files or in the root, replaces the published class names. A smaller dataset in the
/// same format is accepted. All errors, including missing image files, are reported together,
/// without a location in the recipe.
runner::Result<ImageList> list_flowers102(const std::filesystem::path& root, FlowerParts parts,
                                          bool allow_outside);

/// Returns the names of the 102 classes of Oxford Flowers, in the order of their labels.
std::span<const std::string_view> flower_names();

}  // namespace stages
