#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/record/event_file.h"
#include "runner/parent/record/hparams.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/protocol/event.h"

namespace runner {

/// Writes a run as TensorBoard event files: below `folder`, one subfolder for each node, which
/// TensorBoard shows as a run. A tag is the recorded name of a metric or histogram, such as
/// "train/loss". The folder itself contains the data for the run as a whole: its options, recipe
/// and summary. All functions throw WriteError or std::filesystem::filesystem_error. Times are in
/// seconds since 1970.
class TensorBoardLog {
 public:
  /// `storage` is borrowed. Nothing is created before the first value.
  explicit TensorBoardLog(std::filesystem::path folder, Storage& storage = disk())
      : folder_(std::move(folder)), storage_(&storage) {}

  void metric(const NodeMetric& metric, double time);
  void histogram(const NodeHistogram& histogram, double time);
  /// Writes the example images that an evaluation has left in `folder`, its own folder.
  void examples(const std::string& node, const std::filesystem::path& folder, double time);
  /// Must be called before a node repeats its steps from `step` on, so that TensorBoard drops the
  /// earlier values at these steps.
  void restart(const std::string& node, std::int64_t step, double time);

  /// Begins a run: writes its options and its recipe, a string without secrets. Replaces what an
  /// earlier attempt has written about the whole run, since TensorBoard keeps the first of each.
  void begin(const Hparams& options, std::string_view recipe, double time);
  /// Ends a run: writes its summary, the content of summary.json.
  void end(const nlohmann::ordered_json& summary, double time);

  /// Returns the files written so far, relative to the folder.
  std::vector<std::string> files() const;

 private:
  /// `node` is empty for the run as a whole.
  EventFile& file_of(const std::string& node, double time);

  std::filesystem::path folder_;
  Storage* storage_;
  std::map<std::string, EventFile> files_;  // by node
};

/// Writes the recorded run in `run` into the existing `folder`, as TensorBoardLog does. `options`
/// are a trial's options; nullopt for the options that the user has overridden. Returns the files
/// below `folder`; empty if nothing was measured.
std::vector<std::string> write_tensorboard(const std::filesystem::path& run,
                                           const std::filesystem::path& folder,
                                           const std::optional<Hparams>& options = {});

}  // namespace runner
