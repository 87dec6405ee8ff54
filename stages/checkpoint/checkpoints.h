#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/disk/storage.h"
#include "runner/stage/checkpoint_name.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/checkpoint/training_state.h"

namespace stages {

struct CheckpointOptions {
  std::int64_t keep_last = 1;  ///< of the newest ones, 1 or more
  std::int64_t keep_best = 0;  ///< of those with the best metric
  bool higher_is_better = false;
};

/// A checkpoint that was found whole.
struct FoundCheckpoint {
  std::filesystem::path folder;
  TrainingState state;
  std::vector<std::string> passed_over;  ///< a line for each one that was to be used and is damaged
};

/// The checkpoints of one training, folders below one folder:
///
///   step-00001234/   one checkpoint (checkpoint_folder.h)
///   latest, best     the name of one, a line
///
/// A checkpoint is built under another name, flushed to the disk and renamed, and only then pointed to, so that a kill
/// or a power cut at any moment leaves the one before or the new one whole. One program at a time may save.
class Checkpoints {
 public:
  /// `folder` need not exist. `storage` is borrowed.
  Checkpoints(std::filesystem::path folder, CheckpointOptions options, runner::Storage& storage = runner::disk());

  /// Saves `state`, points `latest` to it and, of all that have a metric, `best` to the one with the best (of equals
  /// the oldest), and removes those that are neither pointed to nor to be kept. Returns the new folder. Throws
  /// runner::WriteError, kDiskFull before anything is written where there is too little room; what was saved before
  /// stays. What cannot be removed is tried again at the next save.
  std::filesystem::path save(const TrainingState& state);

  /// The one that `latest` names or, if that is damaged, the newest that is whole. nullopt where there is none at all;
  /// throws runner::StageError (kDamagedWeights) where all that there are are damaged.
  std::optional<FoundCheckpoint> load_latest(CheckpointPart part = CheckpointPart::kAll) const;
  /// The one that `best` names, likewise; nullopt where none has been measured.
  std::optional<FoundCheckpoint> load_best(CheckpointPart part = CheckpointPart::kAll) const;

 private:
  std::optional<runner::CheckpointName> pointer(const char* name) const;
  std::optional<FoundCheckpoint> load_first(const std::vector<runner::CheckpointName>& names,
                                            std::vector<std::string> passed_over, CheckpointPart part) const;
  struct Saved;
  std::vector<Saved> saved() const;
  void make_room(const TrainingState& state);
  void point(const char* name, const runner::CheckpointName& to);
  void remove_spare(const std::vector<Saved>& all);
  void remove_leftovers();

  std::filesystem::path folder_;
  CheckpointOptions options_;
  runner::Storage& storage_;
};

}  // namespace stages
