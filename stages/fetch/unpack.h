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

/// Callbacks for progress, messages and cancellation; any member may be empty.
struct FetchCallbacks {
  std::function<void(const runner::Progress&)> progress;
  std::function<void(std::string_view line)> say;
  std::function<bool()> canceled;  ///< returns true to stop
};

/// Returns callbacks that forward to `context`, which is borrowed.
FetchCallbacks callbacks_of(runner::RunContext& context);

/// Throws runner::Canceled if cancellation is requested.
void stop_if_canceled(const FetchCallbacks& callbacks);

/// Reports the progress of a phase at most ten times per second, with speed and remaining time.
class ByteProgress {
 public:
  /// `callbacks` is borrowed. `begin` is the number of bytes already processed, `all` the total, or
  /// 0 if that is unknown.
  ByteProgress(const FetchCallbacks& callbacks, std::string phase, std::int64_t begin,
               std::int64_t all);
  /// Reports that `done` bytes have been processed.
  void at(std::int64_t done);
  void set_all(std::int64_t all) { all_ = all; }

 private:
  const FetchCallbacks& callbacks_;
  const std::string phase_;
  std::int64_t all_, reported_bytes_;
  double reported_seconds_, bytes_per_second_ = 0;
};

/// Limits on an archive's contents. All published archives are within them.
struct UnpackLimits {
  std::int64_t entries = 100'000;
  std::int64_t bytes = std::int64_t{8} << 30;
};

struct Unpacked {
  std::int64_t files = 0, bytes = 0;
};

/// Unpacks a tar archive, gzipped or not, into `folder`, an existing empty folder owned by the
/// caller. Creates only regular files and folders, with default permissions, and only below
/// `folder`. Throws if the archive contains anything else: a path that is absolute or has "..", a
/// link, a device, a duplicate file, or more than `limits` allow. The caller must then remove the
/// files created so far. The contents of the archive's folder `inner` go to `folder` itself, as do
/// the files next to `inner`. Throws runner::StageError (kBadArchive, kDiskFull, kCannotCreate,
/// kCannotWrite) and runner::Canceled.
Unpacked unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
                const std::string& inner, const UnpackLimits& limits,
                const FetchCallbacks& callbacks, runner::Storage& storage);

/// Returns the components of a path in an archive, without "."; empty if the path is absolute, has
/// "..", or contains bytes that no dataset has in its file names.
std::vector<std::string> safe_parts(std::string_view path);

}  // namespace stages
