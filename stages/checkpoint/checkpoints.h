#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "stages/checkpoint/checkpoint_folder.h"

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
};

/// Where a training continues.
struct Continuation {
  std::optional<FoundCheckpoint> from;  ///< nullopt: from its beginning
  std::vector<std::string> damaged;     ///< a line for each checkpoint that was passed over
};

/// The checkpoints of one training, folders below one folder:
///
///   step-00001234/   one checkpoint (checkpoint_folder.h)
///   latest, best     the name of one, a line
///   damaged-step-…   one that was damaged when the training was resumed; nobody uses it
///
/// A checkpoint is built under another name, flushed to the disk and renamed, and only then pointed
/// to, so that a kill or a power cut at any moment leaves the one before or the new one whole. One
/// program at a time may save.
class Checkpoints {
 public:
  /// `folder` need not exist. `storage` is borrowed.
  Checkpoints(std::filesystem::path folder, CheckpointOptions options,
              runner::Storage& storage = runner::disk());

  /// Saves `state`, points `latest` to it and, of all that have a metric, `best` to the one with
  /// the best (of equals the oldest), and removes those that are neither pointed to nor to be kept.
  /// Returns the new folder. Throws runner::WriteError, kDiskFull before anything is written where
  /// there is too little room; what was saved before stays. What cannot be removed is tried again
  /// at the next save.
  std::filesystem::path save(const TrainingState& state);

  /// The one that `latest` names; nullopt where there is none at all. Throws runner::StageError,
  /// kDamagedWeights, where that one is damaged: only a training that continues may do with
  /// another.
  std::optional<FoundCheckpoint> load_latest(CheckpointPart part = CheckpointPart::kAll) const;
  /// The best of all, likewise; nullopt where none has been measured. That is the one that `best`
  /// names, but where a save was cut off before it was pointed to.
  std::optional<FoundCheckpoint> load_best(CheckpointPart part = CheckpointPart::kAll) const;

  /// The one that `latest` names or, if that is damaged, the newest that is whole; where the one
  /// that `best` names is damaged, the newest before it, so that it comes about again. A damaged
  /// one is renamed, to damaged-step-00001234. What the last save was to do after that, it does: it
  /// may have been cut off.
  Continuation load_to_continue();
  /// Whether that would find one.
  bool can_continue() const;

  /// What to do about a damaged one: resume the run, or ask for one that is whole by `option`, such
  /// as "--checkpoint ", with its folder appended. Empty `option`: it cannot be asked for.
  std::string advice(const std::string& option) const;

 private:
  /// A damaged checkpoint, or what else is wrong.
  struct Damage {
    std::optional<runner::CheckpointName> name;
    std::string what;
  };
  using Read = std::function<void(const std::filesystem::path& folder)>;
  std::optional<FoundCheckpoint> load(const char* pointer, bool is_expected,
                                      CheckpointPart part) const;
  FoundCheckpoint read(const runner::CheckpointName& name, CheckpointPart part) const;
  std::optional<runner::CheckpointName> find_to_continue(const Read& read,
                                                         std::vector<Damage>& damaged) const;
  std::string set_aside(const runner::CheckpointName& name);
  void finish_save(const runner::CheckpointName& latest, std::vector<std::string>& said);
  struct Saved;
  static bool is_measured(const Saved& one);
  std::vector<Saved> saved() const;
  void make_room(const TrainingState& state);
  void point(const char* name, const runner::CheckpointName& to);
  void remove_spare(const std::vector<Saved>& all);
  void remove(const runner::CheckpointName& name);
  void remove_leftovers();

  std::filesystem::path folder_;
  CheckpointOptions options_;
  runner::Storage& storage_;
};

}  // namespace stages
