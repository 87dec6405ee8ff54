#pragma once

#include <filesystem>
#include <string>

namespace stages {

/// The SHA-256 digest of a file's bytes, as 64 hexadecimal digits. Throws runner::StageError (kMissingWeights) where
/// the file cannot be read.
std::string file_sha256(const std::filesystem::path& path);

}  // namespace stages
