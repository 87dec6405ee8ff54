#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/fetch/callbacks.h"

namespace stages {

/// What an archive may come to; one that holds more is none of those that are published.
struct UnpackLimits {
  std::int64_t entries = 100'000;
  std::int64_t bytes = std::int64_t{8} << 30;
};

struct Unpacked {
  std::int64_t files = 0, bytes = 0;
};

/// Unpacks a tar archive, packed by gzip or not, into `folder`, which is there, empty and ours. Regular files and
/// folders alone are made, with plain permissions, and only below `folder`: anything else in the archive (a path that
/// is absolute or has "..", a link, a device, a file twice, more than `limits`) is refused, with what was made until
/// then left to the caller to remove. What lies in the archive's folder `inner` comes to lie in `folder` itself, beside
/// what lies next to it. Throws runner::StageError (kBadArchive, kDiskFull, kCannotCreate, kCannotWrite) and
/// runner::Cancelled.
Unpacked unpack(const std::filesystem::path& archive, const std::filesystem::path& folder, const std::string& inner,
                const UnpackLimits& limits, const FetchCallbacks& callbacks, runner::Storage& storage);

/// The parts of a path in an archive, without "."; empty where it is absolute, has "..", or bytes that no name of a
/// data set's has.
std::vector<std::string> safe_parts(std::string_view path);

}  // namespace stages
