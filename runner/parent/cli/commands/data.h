#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"

namespace runner {

/// The datasets that `retort data make` can generate; stages/worker/requests.cpp generates them.
inline constexpr std::array<std::string_view, 8> kMakeableData = {
    "image_folder",  "flowers102", "cub200",       "mini_imagenet",
    "stanford_cars", "aptos_2019", "eyepacs_2015", "fundus_folders"};
/// The datasets in kMakeableData that have grades instead of classes; each has five grades.
inline constexpr std::array<std::string_view, 3> kGradedData = {"aptos_2019", "eyepacs_2015",
                                                                "fundus_folders"};

/// The datasets that `retort data fetch` knows; stages/data/fetch_dataset.cpp has their URLs.
inline constexpr std::array<std::string_view, 2> kFetchableData = {"cub200", "flowers102"};

/// Implements `retort data check`: a worker inspects the images of each data stage of a recipe,
/// then a table and any problems are printed. Two images count as copies if their 256-bit hashes
/// differ in at most `distance` bits. Data that would stop a run and copies across splits are
/// errors; they determine the exit code.
ExitCode check_data(const NamedRecipe& recipe, std::int64_t distance, const LogFlags& log,
                    Console& console);

}  // namespace runner
