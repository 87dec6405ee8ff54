#pragma once

#include <filesystem>

namespace stages {

/// Compares how two runs divided their images, by the division.gz of the data stages in their
/// folders `nodes`. Throws runner::StageError, kOptionConflict, without a place, if `earlier`
/// trained on images that `own` validates or tests on: a choice by validation would then be
/// worthless. Images below different roots, and data that is not files, cannot be compared.
void check_divided_alike(const std::filesystem::path& own, const std::filesystem::path& earlier);

}  // namespace stages
