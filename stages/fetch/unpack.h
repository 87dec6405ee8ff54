#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "runner/shared/stage/run_context.h"

namespace stages {

/// What fetching tells and asks; any member may be empty.
struct FetchCallbacks {
  std::function<void(const runner::Progress&)> progress;
  std::function<void(std::string_view line)> say;
  std::function<bool()> cancelled;  ///< true once it is to stop
};

/// Those of a running stage; `context` is borrowed.
FetchCallbacks callbacks_of(runner::RunContext& context);

/// Throws runner::Cancelled where it is to stop.
void stop_if_cancelled(const FetchCallbacks& callbacks);

/// Tells how far a phase is, at most ten times a second, with its speed and the time left.
class ByteProgress {
 public:
  /// `callbacks` is borrowed. `all`: 0 where it is unknown.
  ByteProgress(const FetchCallbacks& callbacks, std::string phase, std::int64_t begin,
               std::int64_t all);
  /// `done` bytes by now.
  void at(std::int64_t done);
  void set_all(std::int64_t all) { all_ = all; }

 private:
  const FetchCallbacks& callbacks_;
  const std::string phase_;
  std::int64_t all_, reported_bytes_;
  double reported_seconds_, bytes_per_second_ = 0;
};

/// What an archive may come to; one that holds more is none of those that are published.
struct UnpackLimits {
  std::int64_t entries = 100'000;
  std::int64_t bytes = std::int64_t{8} << 30;
};

struct Unpacked {
  std::int64_t files = 0, bytes = 0;
};

/// Unpacks a tar archive, packed by gzip or not, into `folder`, which is there, empty and ours.
/// Regular files and folders alone are made, with plain permissions, and only below `folder`:
/// anything else in the archive (a path that is absolute or has "..", a link, a device, a file
/// twice, more than `limits`) is refused, with what was made until then left to the caller to
/// remove. What lies in the archive's folder `inner` comes to lie in `folder` itself, beside what
/// lies next to it. Throws runner::StageError (kBadArchive, kDiskFull, kCannotCreate, kCannotWrite)
/// and runner::Cancelled.
Unpacked unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
                const std::string& inner, const UnpackLimits& limits,
                const FetchCallbacks& callbacks, runner::Storage& storage);

/// The parts of a path in an archive, without "."; empty where it is absolute, has "..", or bytes
/// that no name of a data set's has.
std::vector<std::string> safe_parts(std::string_view path);

}  // namespace stages
