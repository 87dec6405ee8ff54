#pragma once

#include <filesystem>
#include <string>

#include "runner/shared/error/result.h"

namespace stages {

/// No file of a vocabulary is read that is longer, compressed or not; CLIP's longest has 3 MB.
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{16} << 20;

/// The text of a vocabulary's file, which may be compressed by gzip, whatever its name. kMissingWeights where there is
/// no such file, kDamagedWeights where it cannot be read, is damaged or too long.
runner::Result<std::string> read_vocabulary_file(const std::filesystem::path& file);

}  // namespace stages
