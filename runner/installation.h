#pragma once

#include <filesystem>

namespace runner {

/// The folder of the running program; the build tree is laid out like an installation.
std::filesystem::path program_folder();

/// schemas/, recipes/ and experiments/ as shipped: ../share/retort beside the program.
std::filesystem::path share_folder();

}  // namespace runner
