#pragma once

#include <filesystem>

namespace runner {

/// Returns the path of this program. The build tree has the layout of an installation.
std::filesystem::path own_executable();

/// Returns the folder with the schemas/, recipes/ and experiments/ of this version:
/// ../share/retort, relative to the program's folder.
std::filesystem::path share_folder();

}  // namespace runner
