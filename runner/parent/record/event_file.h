#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runner/parent/record/protobuf_message.h"
#include "runner/shared/disk/new_file.h"

namespace runner {

/// A TensorBoard event file: TFRecords with tensorflow.Event messages
/// (tensorflow/core/util/event.proto). All functions throw WriteError.
class EventFile {
 public:
  /// Creates a new file in `folder`, which exists. TensorBoard reads it after the files that are
  /// already there. `time` is when its first event occurred, in seconds since 1970. `storage` is
  /// borrowed.
  EventFile(const std::filesystem::path& folder, double time, Storage& storage);

  /// Appends a value (summary_value.h) that was measured at `step`.
  void add(const ProtobufMessage& value, std::int64_t step, double time);
  /// Makes TensorBoard discard the folder's earlier events at `step` and later steps.
  void restart(std::int64_t step, double time);

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  NewFile file_;
};

/// Removes the event files that Retort wrote to `folder`, but not those in its subfolders.
void remove_event_files(const std::filesystem::path& folder);

/// Returns `message` as a TFRecord: its length and bytes, each with a masked CRC.
std::string tensorboard_record(std::string_view message);

/// Returns the CRC-32C (Castagnoli) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace runner
