#pragma once

#include <filesystem>

namespace runner {

/// The path of this program. The build tree is laid out like an installation.
std::filesystem::path own_executable();

/// The folder with schemas/, recipes/ and experiments/ as shipped: ../share/retort next to the
/// program's folder.
std::filesystem::path share_folder();

}  // namespace runner
