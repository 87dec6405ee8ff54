#pragma once

#include <array>
#include <string_view>

namespace runner {

/// What `retort data make` makes; how, stages/worker/requests.cpp says.
inline constexpr std::array<std::string_view, 5> kMakeableData = {"image_folder", "flowers102", "cub200",
                                                                  "mini_imagenet", "stanford_cars"};

/// The data sets that `retort data fetch` knows; where they are published stages/data/fetch_dataset.cpp says.
inline constexpr std::array<std::string_view, 2> kFetchableData = {"cub200", "flowers102"};

}  // namespace runner
