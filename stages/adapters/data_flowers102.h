#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Which of the published lists of Oxford Flowers 102 trains, validates and tests.
enum class FlowerParts : std::uint8_t {
  kPublished,           ///< trnid, valid and tstid
  kTrainAndValidation,  ///< trnid followed by valid; nothing; tstid
  kSwapped,             ///< tstid, valid and trnid
};

/// What root/ or root/flowers-102/ holds, in the order of its lists: jpg/image_00001.jpg, …,
/// imagelabels.mat with a label of 1 to 102 for each image, setid.mat with the numbers of the
/// images for training, validation and test, no number twice. There are as many classes as the
/// largest label says; cat_to_name.json, {"1": "pink primrose", …}, may lie beside them or in the
/// root and names them, otherwise they are called as published. A smaller set of the same form is
/// one. Everything wrong is reported at once, without a place, image files that are not there
/// included.
runner::Result<ImageList> list_flowers102(const std::filesystem::path& root, FlowerParts parts,
                                          bool allow_outside);

/// What the 102 classes of Oxford Flowers are called, in order of their label.
std::span<const std::string_view> flower_names();

}  // namespace stages
