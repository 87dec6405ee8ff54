#pragma once

#include <filesystem>

namespace stages {

/// Compares how two runs divided their images, using the division.gz files of the data stages in
/// their `nodes` folders. Throws runner::StageError (kOptionConflict), without a location, if
/// `earlier` trained on images that `own` validates or tests on: selection by validation results
/// would then be meaningless. Images below different roots, and data that does not consist of
/// files, cannot be compared.
void check_divided_alike(const std::filesystem::path& own, const std::filesystem::path& earlier);

}  // namespace stages
