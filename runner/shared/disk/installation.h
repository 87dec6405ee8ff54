#pragma once

#include <filesystem>

namespace runner {

/// Where this program lies. The build tree is laid out like an installation.
std::filesystem::path own_executable();

/// schemas/, recipes/ and experiments/ as shipped: in ../share/retort beside the program's folder.
std::filesystem::path share_folder();

}  // namespace runner
