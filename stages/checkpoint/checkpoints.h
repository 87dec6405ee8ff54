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
  std::int64_t keep_last = 1;  ///< how many of the newest to keep, at least 1
  std::int64_t keep_best = 0;  ///< how many with the best metric to keep
  bool higher_is_better = false;
  /// How many checkpoints a later average needs. The first save fails unless there is space for all
  /// of them.
  std::int64_t averaged = 0;
};

/// A checkpoint that passed its checks.
struct FoundCheckpoint {
  std::filesystem::path folder;
  TrainingState state;
};

/// Where training resumes.
struct Continuation {
  std::optional<FoundCheckpoint> from;  ///< nullopt: from the beginning
  std::vector<std::string> damaged;     ///< a line for each skipped checkpoint
};

/// The checkpoints of one training run, which are subfolders of one folder:
///
///   step-00001234/   one checkpoint (checkpoint_folder.h)
///   latest, best     one line with a checkpoint's name
///   average/         the average of the best ones, if it beats each of them
///   damaged-step-…   one that was found damaged on resume; it is never used
///
/// A checkpoint is written under a temporary name, flushed to disk and renamed before `latest`
/// points to it. If the process is killed or the power fails, either the previous or the new
/// checkpoint is therefore intact. Only one process at a time may save.
class Checkpoints {
 public:
  /// `folder` need not exist. `storage` is borrowed.
  Checkpoints(std::filesystem::path folder, CheckpointOptions options,
              runner::Storage& storage = runner::disk());

  /// Saves `state`, points `latest` to it and `best` to the checkpoint with the best metric (the
  /// oldest if several are equal), and removes the checkpoints that neither a pointer nor the
  /// options keep. Returns the new folder. Throws runner::WriteError: kDiskFull, before anything is
  /// written, if there is not enough space; earlier checkpoints are kept. A failed removal is
  /// retried at the next save. `bring` is as in write_checkpoint().
  std::filesystem::path save(const TrainingState& state, const BringTensor& bring = bring_here);

  /// Loads the checkpoint that `latest` points to; returns nullopt if there are no checkpoints.
  /// Throws runner::StageError (kDamagedWeights) if it is damaged: only a resumed training run may
  /// fall back to another one.
  std::optional<FoundCheckpoint> load_latest(CheckpointPart part = CheckpointPart::kAll) const;
  /// Returns the folders of the `count` checkpoints with the best metric, best first; fewer if
  /// fewer have been measured.
  std::vector<std::filesystem::path> best(std::int64_t count) const;
  /// Saves the weights in `state` as the average, which then counts as the best. Replaces an
  /// earlier average. Returns its folder. Throws like save().
  std::filesystem::path save_average(const TrainingState& state);
  /// Removes the average, if there is one, because training continues.
  void remove_average();

  /// Loads the best checkpoint or the average; returns nullopt if no metric has been measured. This
  /// is the checkpoint that `best` points to, unless a save was interrupted before it updated
  /// `best`. Throws runner::StageError (kDamagedWeights) if it is damaged.
  std::optional<FoundCheckpoint> load_best(CheckpointPart part = CheckpointPart::kAll) const;

  /// Loads the average or the checkpoint that `best` points to, regardless of whether a higher
  /// metric is better; returns nullopt if neither exists. Throws like load_best().
  std::optional<FoundCheckpoint> load_named_best(CheckpointPart part = CheckpointPart::kAll) const;

  /// Loads the checkpoint that `latest` points to or, if that is damaged, the newest intact one. If
  /// the checkpoint that `best` points to is damaged, loads the newest one before it, so that
  /// training reaches it again. Renames damaged checkpoints to damaged-step-00001234. Also
  /// completes the cleanup of the last save, which may have been interrupted. `contents_of` is as
  /// in read_checkpoint().
  Continuation load_to_continue(const ContentsOf& contents_of = [](const std::string&) {
    return WeightContents::kNumbers;
  });
  /// True if load_to_continue() would find a checkpoint.
  bool can_continue() const;

  /// Returns advice for a damaged checkpoint: resume the run, or specify an intact checkpoint with
  /// `option`, such as "--checkpoint ", to which its folder is appended. `option` is empty if there
  /// is no such option.
  std::string advice(const std::string& option) const;

 private:
  /// A damaged checkpoint or another problem.
  struct Damage {
    std::optional<runner::CheckpointName> name;
    std::string what;
  };
  using Read = std::function<void(const std::filesystem::path& folder)>;
  std::optional<FoundCheckpoint> load_average(CheckpointPart part) const;
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
  void make_room(const TrainingState& state, std::int64_t count);
  void point(const char* name, const runner::CheckpointName& to);
  void remove_spare(const std::vector<Saved>& all);
  void remove(const runner::CheckpointName& name);
  void remove_leftovers();

  std::filesystem::path folder_;
  CheckpointOptions options_;
  runner::Storage& storage_;
};

}  // namespace stages
