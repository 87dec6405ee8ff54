#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/storage.h"
#include "stages/fetch/unpack.h"

namespace stages {

/// The expected checksum of a file.
struct Checksum {
  runner::DigestKind kind = runner::DigestKind::kMd5;
  std::string hex;           ///< lower case
  bool is_git_blob = false;  ///< of "blob <size>\0" and then the file, as git names its blobs
};

/// The checksum of the file's bytes, of the same kind as `like`. `step` is called every mebibyte
/// with the bytes so far; it may throw. Throws runner::StageError (kMissingFile) if the file cannot
/// be read.
std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step);

/// Timeouts and retries for a server.
struct Patience {
  long connect_seconds = 30;
  long stall_seconds = 60;    ///< without a byte
  int attempts = 5;           ///< attempts in a row without progress
  double first_wait = 1;      ///< seconds before the second; each further wait is twice as long
  double longest_wait = 120;  ///< the longest wait accepted when a server asks for one by
                              ///< Retry-After
  std::function<void(double seconds)> wait = {};  ///< in place of sleeping, for tests
};

/// A status that says the request may succeed on a retry.
bool is_passing_status(int status);

/// Reports "<why>; trying again in 4 s" and waits. Throws runner::Cancelled.
void wait_out(const std::string& why, double seconds, const Patience& patience,
              const FetchCallbacks& callbacks);

/// One file to be fetched.
struct Download {
  std::string url;
  std::filesystem::path file;  ///< destination; its folder exists
  std::string name = {};       ///< its name in messages; empty: as `file`
  std::optional<Checksum> checksum = {};
  std::int64_t bytes = 0;  ///< the size published by its owner; 0: unknown
  std::int64_t also_needs =
      0;                   ///< further bytes of disk needed after the download, e.g. to unpack it
  std::string token = {};  ///< sent to the url's own host only
  std::string token_help = {};  ///< what to do if the server requires authentication
};

/// Fetches a file. It appears under its name once it is complete and its checksum is right. Until
/// then it grows as <file>.part, with its metadata in <file>.part.json. Both stay if the download
/// is stopped, killed or cut off, and the next call continues from there (Range, If-Range). If the
/// server cannot do that or the file has changed, it starts over and says so. Waits and retries on
/// transient failures. An existing file is accepted if its checksum is right. Returns the number of
/// bytes downloaded. Throws runner::StageError: kDownloadFailed, kNotPublished, kWrongChecksum,
/// kDiskFull, kCannotCreate, kCannotWrite; and runner::Cancelled.
std::int64_t download(const Download& what, const FetchCallbacks& callbacks,
                      const Patience& patience = {}, runner::Storage& storage = runner::disk());

/// Checks the checksum of `file`, called `name` in messages, and reports progress. Throws
/// runner::StageError (kWrongChecksum) with both checksums.
void check_sum(const std::filesystem::path& file, const std::string& name, const Checksum& checksum,
               const FetchCallbacks& callbacks);

/// Throws runner::StageError (kDiskFull) if the disk of `folder` reports fewer than `bytes` bytes
/// free.
void check_room(const std::filesystem::path& folder, std::int64_t bytes, runner::Storage& storage);

}  // namespace stages
