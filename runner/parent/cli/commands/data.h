#pragma once

#include <array>
#include <string_view>

namespace runner {

/// What `retort data make` makes; how, stages/worker/requests.cpp says.
inline constexpr std::array<std::string_view, 8> kMakeableData = {"image_folder",  "flowers102",    "cub200",
                                                                  "mini_imagenet", "stanford_cars", "aptos_2019",
                                                                  "eyepacs_2015",  "fundus_folders"};
/// Those of them whose classes are grades, of which there are five.
inline constexpr std::array<std::string_view, 3> kGradedData = {"aptos_2019", "eyepacs_2015", "fundus_folders"};

/// The data sets that `retort data fetch` knows; where they are published stages/data/fetch_dataset.cpp says.
inline constexpr std::array<std::string_view, 2> kFetchableData = {"cub200", "flowers102"};

}  // namespace runner
