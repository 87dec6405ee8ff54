#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"

namespace runner {

/// What `retort data make` can generate; stages/worker/requests.cpp generates it.
inline constexpr std::array<std::string_view, 8> kMakeableData = {
    "image_folder",  "flowers102", "cub200",       "mini_imagenet",
    "stanford_cars", "aptos_2019", "eyepacs_2015", "fundus_folders"};
/// The ones whose classes are grades; there are five grades.
inline constexpr std::array<std::string_view, 3> kGradedData = {"aptos_2019", "eyepacs_2015",
                                                                "fundus_folders"};

/// The data sets that `retort data fetch` knows; stages/data/fetch_dataset.cpp holds their
/// addresses.
inline constexpr std::array<std::string_view, 2> kFetchableData = {"cub200", "flowers102"};

/// `retort data check`: has a worker inspect the images of each data stage of a recipe, then prints
/// a table and the problems. `distance` is how many of 256 bits may differ between images that
/// count as the same. Data that would stop a run, and copies in two splits, are errors and set the
/// exit code.
ExitCode check_data(const NamedRecipe& recipe, std::int64_t distance, const LogFlags& log,
                    Console& console);

}  // namespace runner
