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
  std::string hex;  ///< lower case
  /// True if the checksum is of "blob <size>\0" followed by the file, which is how git names blobs.
  bool is_git_blob = false;
};

/// Returns the checksum of `file`, of the same kind as `like`. Calls `step` every mebibyte with the
/// number of bytes read so far; `step` may throw. Throws runner::StageError (kMissingFile) if the
/// file cannot be read.
std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step);

/// Timeouts and retries for a server.
struct Patience {
  long connect_seconds = 30;
  long stall_seconds = 60;  ///< the longest time without receiving a byte
  int attempts = 5;         ///< the maximum number of consecutive attempts without progress
  double first_wait = 1;  ///< seconds before the second attempt; doubles with each further attempt
  /// The longest wait, in seconds, that a server may request with Retry-After.
  double longest_wait = 120;
  std::function<void(double seconds)> wait = {};  ///< called instead of sleeping, for tests
};

/// True for an HTTP status after which a retry may succeed.
bool is_passing_status(int status);

/// Reports "<why>; trying again in 4 s" and waits. Throws runner::Canceled if canceled.
void wait_out(const std::string& why, double seconds, const Patience& patience,
              const FetchCallbacks& callbacks);

/// A file to download.
struct Download {
  std::string url;
  std::filesystem::path file;  ///< the destination; its folder must exist
  std::string name = {};       ///< the name in messages; empty: the name of `file`
  std::optional<Checksum> checksum = {};
  std::int64_t bytes = 0;  ///< the published size; 0: unknown
  /// Disk space in bytes needed after the download, for example to unpack the file.
  std::int64_t also_needs = 0;
  std::string token = {};       ///< sent only to the host of `url`
  std::string token_help = {};  ///< the advice if the server requires authentication
};

/// Downloads a file. The file appears under its final name once it is complete and its checksum is
/// correct. Until then, the data is in <file>.part, and its metadata in <file>.part.json. Both are
/// kept if the download is stopped, killed or cut off, and the next call continues from there
/// (Range, If-Range). If the server does not support that, or the file has changed, the download
/// starts over and reports this. Waits and retries after transient failures. An existing file with
/// the correct checksum is accepted. Returns the number of bytes downloaded. Throws
/// runner::StageError (kDownloadFailed, kNotPublished, kWrongChecksum, kDiskFull, kCannotCreate,
/// kCannotWrite) and runner::Canceled.
std::int64_t download(const Download& what, const FetchCallbacks& callbacks,
                      const Patience& patience = {}, runner::Storage& storage = runner::disk());

/// Verifies the checksum of `file`, called `name` in messages, and reports progress. Throws
/// runner::StageError (kWrongChecksum) with both checksums if they differ.
void check_sum(const std::filesystem::path& file, const std::string& name, const Checksum& checksum,
               const FetchCallbacks& callbacks);

/// Throws runner::StageError (kDiskFull) if the disk that contains `folder` has fewer than `bytes`
/// bytes free.
void check_room(const std::filesystem::path& folder, std::int64_t bytes, runner::Storage& storage);

}  // namespace stages
