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

/// Callbacks for progress and cancellation; any member may be empty.
struct FetchCallbacks {
  std::function<void(const runner::Progress&)> progress;
  std::function<void(std::string_view line)> say;
  std::function<bool()> cancelled;  ///< true to stop
};

/// The callbacks of a running stage; `context` is borrowed.
FetchCallbacks callbacks_of(runner::RunContext& context);

/// Throws runner::Cancelled if the fetch should stop.
void stop_if_cancelled(const FetchCallbacks& callbacks);

/// Reports the progress of a phase, at most ten times a second, with speed and time left.
class ByteProgress {
 public:
  /// `callbacks` is borrowed. `all`: 0 if unknown.
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

/// Limits for an archive's contents; all published archives stay within them.
struct UnpackLimits {
  std::int64_t entries = 100'000;
  std::int64_t bytes = std::int64_t{8} << 30;
};

struct Unpacked {
  std::int64_t files = 0, bytes = 0;
};

/// Unpacks a tar archive, gzipped or not, into `folder`, which exists, is empty and belongs to the
/// caller. Creates only regular files and folders, with plain permissions, and only below `folder`.
/// Refuses anything else in the archive (a path that is absolute or has "..", a link, a device, a
/// duplicate file, more than `limits`); the caller must then remove what was already created. The
/// contents of the archive's folder `inner` go to `folder` itself, together with what is next to
/// `inner`. Throws runner::StageError (kBadArchive, kDiskFull, kCannotCreate, kCannotWrite) and
/// runner::Cancelled.
Unpacked unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
                const std::string& inner, const UnpackLimits& limits,
                const FetchCallbacks& callbacks, runner::Storage& storage);

/// The components of a path in an archive, without "."; empty if the path is absolute, has "..", or
/// has bytes that occur in no name of a data set.
std::vector<std::string> safe_parts(std::string_view path);

}  // namespace stages
