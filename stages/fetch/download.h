#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runner/shared/disk/storage.h"
#include "stages/fetch/callbacks.h"
#include "stages/fetch/checksum.h"
#include "stages/fetch/patience.h"

namespace stages {

/// One file to be fetched.
struct Download {
  std::string url;
  std::filesystem::path file;  ///< where it goes; its folder exists
  std::string name = {};       ///< what messages call it; empty: as `file`
  std::optional<Checksum> checksum = {};
  std::int64_t bytes = 0;       ///< that it has, as its owner says; 0: nobody has said
  std::int64_t also_needs = 0;  ///< bytes of disk that are needed when it is there, e.g. to unpack it
  std::string token = {};       ///< of the url's own host
  std::string token_help = {};  ///< what to do where the server wants to know who asks
};

/// Fetches a file, which appears under its name when it is whole and its sum is right. Until then it grows as
/// <file>.part, with what is known of it in <file>.part.json; both stay when it is stopped, killed or cut off,
/// and the next call continues from there (Range, If-Range). Where the server cannot or the file has changed, it starts
/// over and says so. Failures that pass are waited out. A file that is there already is taken if its sum is right.
/// Gives back the bytes that came over the net. Throws runner::StageError: kDownloadFailed, kNotPublished,
/// kWrongChecksum, kDiskFull, kCannotCreate, kCannotWrite; and runner::Cancelled.
std::int64_t download(const Download& what, const FetchCallbacks& callbacks, const Patience& patience = {},
                      runner::Storage& storage = runner::disk());

/// Checks the sum of `file`, which is called `name`, telling how far it is. Throws runner::StageError (kWrongChecksum)
/// with both sums.
void check_sum(const std::filesystem::path& file, const std::string& name, const Checksum& checksum,
               const FetchCallbacks& callbacks);

/// Throws runner::StageError (kDiskFull) where the disk that holds `folder` says that it has not so many bytes free.
void check_room(const std::filesystem::path& folder, std::int64_t bytes, runner::Storage& storage);

}  // namespace stages
