#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Which of the published lists of Oxford Flowers 102 are used for training, validation and test.
enum class FlowerParts : std::uint8_t {
  kPublished,           ///< trnid, valid and tstid
  kTrainAndValidation,  ///< trnid followed by valid; nothing; tstid
  kSwapped,             ///< tstid, valid and trnid
};

/// Lists the content of root/ or root/flowers-102/ in the order of its lists: jpg/image_00001.jpg,
/// …; imagelabels.mat with a label of 1 to 102 for each image; and setid.mat with the numbers of
/// the images for training, validation and test, no number twice. The number of classes is the
/// largest label. cat_to_name.json, {"1": "pink primrose", …}, which may lie next to them or in the
/// root, names the classes; without it they have their published names. A smaller set of the same
/// form is accepted. All errors, including missing image files, are reported together, without a
/// place in the recipe.
runner::Result<ImageList> list_flowers102(const std::filesystem::path& root, FlowerParts parts,
                                          bool allow_outside);

/// The names of the 102 classes of Oxford Flowers, in the order of their labels.
std::span<const std::string_view> flower_names();

}  // namespace stages
