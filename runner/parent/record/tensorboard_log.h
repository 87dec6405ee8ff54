#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/protocol/event.h"

namespace runner {

/// Writes metrics as TensorBoard event files: below `folder`, one subfolder per node, which
/// TensorBoard shows as a run. A tag is the recorded name of a metric, such as "train/loss". The
/// files consist of TFRecords with tensorflow.Event messages (tensorflow/core/util/event.proto).
/// All functions throw WriteError or std::filesystem::filesystem_error.
class TensorBoardLog {
 public:
  /// `storage` is borrowed. Nothing is created before the first metric.
  explicit TensorBoardLog(std::filesystem::path folder, Storage& storage = disk())
      : folder_(std::move(folder)), storage_(&storage) {}

  /// `time` is when the metric was measured, in seconds since 1970.
  void metric(const NodeMetric& metric, double time);
  /// Must be called before a node repeats its steps from `step` on, so that TensorBoard drops the
  /// earlier values at these steps.
  void restart(const std::string& node, std::int64_t step, double time);
  /// Returns the files written so far, relative to the folder.
  std::vector<std::string> files() const;

 private:
  NewFile& file_of(const std::string& node, double time);

  std::filesystem::path folder_;
  Storage* storage_;
  std::map<std::string, NewFile> files_;  // by node
};

/// Writes the recorded metrics of the run in `run` to the existing `folder`, as TensorBoardLog
/// does. Returns the files below `folder`; none if nothing was measured.
std::vector<std::string> write_tensorboard(const std::filesystem::path& run,
                                           const std::filesystem::path& folder);

/// Returns `message` as a TFRecord: its length and bytes, each with a masked CRC.
std::string tensorboard_record(std::string_view message);

/// Returns the CRC-32C (Castagnoli) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace runner
