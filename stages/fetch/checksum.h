#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "runner/shared/disk/digest.h"

namespace stages {

/// What a file's sum has to be.
struct Checksum {
  runner::DigestKind kind = runner::DigestKind::kMd5;
  std::string hex;           ///< lower case
  bool is_git_blob = false;  ///< of "blob <size>\0" and then the file, as git names its blobs
};

/// The sum of the file's bytes, of the kind that `like` is. `step` is called a mebibyte, with the bytes so far; it may
/// throw. Throws runner::StageError (kMissingFile) where the file cannot be read.
std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step);

}  // namespace stages
