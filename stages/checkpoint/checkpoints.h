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
  std::int64_t keep_last = 1;  ///< how many of the newest to keep, 1 or more
  std::int64_t keep_best = 0;  ///< how many with the best metric to keep
  bool higher_is_better = false;
};

/// A checkpoint that passed its checks.
struct FoundCheckpoint {
  std::filesystem::path folder;
  TrainingState state;
};

/// Where a training resumes.
struct Continuation {
  std::optional<FoundCheckpoint> from;  ///< nullopt: from its beginning
  std::vector<std::string> damaged;     ///< a line for each checkpoint that was passed over
};

/// The checkpoints of one training, folders below one folder:
///
///   step-00001234/   one checkpoint (checkpoint_folder.h)
///   latest, best     the name of one, a line
///   damaged-step-…   one that was found damaged on resume; it is never used
///
/// A checkpoint is built under another name, flushed to the disk and renamed, and only then pointed
/// to. So a kill or a power cut at any moment leaves either the previous or the new one whole. Only
/// one program at a time may save.
class Checkpoints {
 public:
  /// `folder` need not exist. `storage` is borrowed.
  Checkpoints(std::filesystem::path folder, CheckpointOptions options,
              runner::Storage& storage = runner::disk());

  /// Saves `state`, points `latest` to it and `best` to the checkpoint with the best metric (the
  /// oldest of equals), and removes those that are neither pointed to nor to be kept. Returns the
  /// new folder. Throws runner::WriteError: kDiskFull, before anything is written, if there is too
  /// little room; earlier checkpoints stay. A removal that fails is retried at the next save.
  /// `bring` as in write_checkpoint().
  std::filesystem::path save(const TrainingState& state, const BringTensor& bring = bring_here);

  /// The checkpoint that `latest` names; nullopt if there is none at all. Throws
  /// runner::StageError, kDamagedWeights, if it is damaged: only a resumed training may fall back
  /// to another.
  std::optional<FoundCheckpoint> load_latest(CheckpointPart part = CheckpointPart::kAll) const;
  /// The best checkpoint, in the same way; nullopt if no metric has been measured. It is the one
  /// that `best` names, unless a save was cut off before it updated `best`.
  std::optional<FoundCheckpoint> load_best(CheckpointPart part = CheckpointPart::kAll) const;

  /// The checkpoint that `latest` names or, if that is damaged, the newest whole one. If the one
  /// that `best` names is damaged, the newest before it, so that training reaches it again. A
  /// damaged one is renamed to damaged-step-00001234. Also completes the cleanup of the last save,
  /// which may have been cut off. `contents_of` as in read_checkpoint().
  Continuation load_to_continue(const ContentsOf& contents_of = [](const std::string&) {
    return WeightContents::kNumbers;
  });
  /// Whether load_to_continue() would find a checkpoint.
  bool can_continue() const;

  /// Advice for a damaged checkpoint: resume the run, or name a whole one with `option`, such as
  /// "--checkpoint ", to which its folder is appended. Empty `option`: there is no such option.
  std::string advice(const std::string& option) const;

 private:
  /// A damaged checkpoint or other fault.
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
