#pragma once

#include <filesystem>
#include <fstream>

namespace runner {

/// Opens a file for reading. The stream has failed if there is no file or it is a folder, a pipe or
/// a device: reading these could block or never end.
std::ifstream open_regular(const std::filesystem::path& path,
                           std::ios::openmode mode = std::ios::in);

}  // namespace runner
