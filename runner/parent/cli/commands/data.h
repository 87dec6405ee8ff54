#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"

namespace runner {

/// What `retort data make` makes; how, stages/worker/requests.cpp says.
inline constexpr std::array<std::string_view, 8> kMakeableData = {
    "image_folder",  "flowers102", "cub200",       "mini_imagenet",
    "stanford_cars", "aptos_2019", "eyepacs_2015", "fundus_folders"};
/// Those of them whose classes are grades, of which there are five.
inline constexpr std::array<std::string_view, 3> kGradedData = {"aptos_2019", "eyepacs_2015",
                                                                "fundus_folders"};

/// The data sets that `retort data fetch` knows; where they are published
/// stages/data/fetch_dataset.cpp says.
inline constexpr std::array<std::string_view, 2> kFetchableData = {"cub200", "flowers102"};

/// `retort data check`: has a worker look at the pictures of each data stage of a recipe, prints a
/// table and what is wrong. `distance` is by how many of 256 bits pictures that look the same may
/// differ. Data that would stop a run, and copies in two parts, are errors, and the exit code is
/// theirs.
ExitCode check_data(const NamedRecipe& recipe, std::int64_t distance, const LogFlags& log,
                    Console& console);

}  // namespace runner
