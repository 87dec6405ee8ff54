#pragma once

#include <filesystem>
#include <fstream>

namespace runner {

/// A stream that reads a file, and has failed where there is none or it is a folder, a pipe or a
/// device: these could be waited for, or never end.
std::ifstream open_regular(const std::filesystem::path& path,
                           std::ios::openmode mode = std::ios::in);

}  // namespace runner
