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

/// What a file's sum has to be.
struct Checksum {
  runner::DigestKind kind = runner::DigestKind::kMd5;
  std::string hex;           ///< lower case
  bool is_git_blob = false;  ///< of "blob <size>\0" and then the file, as git names its blobs
};

/// The sum of the file's bytes, of the kind that `like` is. `step` is called a mebibyte, with the
/// bytes so far; it may throw. Throws runner::StageError (kMissingFile) where the file cannot be
/// read.
std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step);

/// How patient fetching is with a server.
struct Patience {
  long connect_seconds = 30;
  long stall_seconds = 60;    ///< without a byte
  int attempts = 5;           ///< in a row that bring nothing
  double first_wait = 1;      ///< seconds before the second; each further wait is twice as long
  double longest_wait = 120;  ///< of those that a server asks for by Retry-After
  std::function<void(double seconds)> wait = {};  ///< in place of sleeping, for tests
};

/// An answer by which a server says that it may do the next time.
bool is_passing_status(int status);

/// Says "<why>; trying again in 4 s" and waits. Throws runner::Cancelled.
void wait_out(const std::string& why, double seconds, const Patience& patience,
              const FetchCallbacks& callbacks);

/// One file to be fetched.
struct Download {
  std::string url;
  std::filesystem::path file;  ///< where it goes; its folder exists
  std::string name = {};       ///< what messages call it; empty: as `file`
  std::optional<Checksum> checksum = {};
  std::int64_t bytes = 0;  ///< that it has, as its owner says; 0: nobody has said
  std::int64_t also_needs =
      0;                   ///< bytes of disk that are needed when it is there, e.g. to unpack it
  std::string token = {};  ///< of the url's own host
  std::string token_help = {};  ///< what to do where the server wants to know who asks
};

/// Fetches a file, which appears under its name when it is whole and its sum is right. Until then
/// it grows as <file>.part, with what is known of it in <file>.part.json; both stay when it is
/// stopped, killed or cut off, and the next call continues from there (Range, If-Range). Where the
/// server cannot or the file has changed, it starts over and says so. Failures that pass are waited
/// out. A file that is there already is taken if its sum is right. Gives back the bytes that came
/// over the net. Throws runner::StageError: kDownloadFailed, kNotPublished, kWrongChecksum,
/// kDiskFull, kCannotCreate, kCannotWrite; and runner::Cancelled.
std::int64_t download(const Download& what, const FetchCallbacks& callbacks,
                      const Patience& patience = {}, runner::Storage& storage = runner::disk());

/// Checks the sum of `file`, which is called `name`, telling how far it is. Throws
/// runner::StageError (kWrongChecksum) with both sums.
void check_sum(const std::filesystem::path& file, const std::string& name, const Checksum& checksum,
               const FetchCallbacks& callbacks);

/// Throws runner::StageError (kDiskFull) where the disk that holds `folder` says that it has not so
/// many bytes free.
void check_room(const std::filesystem::path& folder, std::int64_t bytes, runner::Storage& storage);

}  // namespace stages
