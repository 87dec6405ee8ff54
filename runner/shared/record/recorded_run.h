#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"

namespace runner {

/// What the record of a run says of how it is to be had again.
struct RecordedRun {
  std::filesystem::path folder;
  std::filesystem::path
      recipe;          ///< the resolved recipe, as it was when the run was last started or resumed
  std::string device;  ///< that it ran on, "cpu" or "cuda:0"
  std::string device_uuid =
      {};                   ///< where it was the only GPU that its worker saw: which; else empty
  int threads = 0;          ///< of its tensor operations
  std::string source = {};  ///< of an evaluation: the folder of the run whose weights it took
  std::string
      status;  ///< of summary.json: "running" where it was killed; empty where there is none
  bool smoke = false;                      ///< it was a smoke run
  std::vector<std::string> finished = {};  ///< the nodes that had finished when that was written
};

/// The folders of the runs in `folder`, such as outputs/, sorted: itself where it is one, or those
/// up to three levels below it. No link is followed.
std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder);

/// What each node of the run in `folder` is called, by its id: "train[rate=0.001]"; without those
/// of whom the record does not say it.
std::map<std::string, std::string> node_titles(const std::filesystem::path& folder);

/// Where the relative paths of `recipe` stand, if that is the recipe in the record of a run: the
/// folder that the run was started in. nullopt where it is another file, or that folder is gone.
std::optional<std::filesystem::path> working_folder_of(const std::filesystem::path& recipe);

/// Reads the record in `folder`. kNoRun where it is no run's folder or the run was killed before
/// its record was whole.
Result<RecordedRun> read_run(const std::filesystem::path& folder);

/// Gives `graph` the threads of `run`, unless an override has changed them since `before`, the
/// graph of its record. True where the device is asked for as it was, so that it is that of the run
/// again. Both are part of the bits: what `auto` came to then, it comes to again.
bool keep_machine(Graph& graph, const Graph& before, const RecordedRun& run);

/// The trainings among the nodes of `graph`, and where in the folder of `run`, which ran it, their
/// weights are. `which`: "best", "latest", a checkpoint's folder, or empty for what each training
/// keeps. kNoCheckpoint where there is no training or one has saved nothing, kUsage where a folder
/// is given for several.
Result<CheckpointSources> find_checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                                  const std::string& which);

/// Whether the run in `folder` has trained something, and each of its trainings has saved weights
/// of its own.
bool has_weights(const std::filesystem::path& folder);

/// The node to predict with: `wanted`, or where that is empty the only one of `trained`; else
/// kUsage.
Result<std::string> choose_training(const CheckpointSources& trained, const std::string& wanted);

/// Who works on a run holds the lock on its folder: on .retort, on whatever machine
/// (folder_lock.h). retort and its worker hold it together; nobody can resume the run before both
/// have gone.
class RunLock {
 public:
  /// For the retort that runs or resumes it. Waits a moment for a worker whose retort was killed,
  /// and for signs of life of a retort on another machine, of which Lease::Options::on_wait tells;
  /// kRunBusy where the run is at work.
  static Result<RunLock> take(const std::filesystem::path& run_folder, Lease::Options options = {});
  /// For the worker of the one that took it.
  static Result<RunLock> join(const std::filesystem::path& run_folder);

 private:
  explicit RunLock(FolderLock lock) : lock_(std::move(lock)) {}
  FolderLock lock_;
};

/// How a run stands whose summary says `recorded`: "interrupted" where that is "running" and nobody
/// holds the lock, for it was killed; else what is recorded. Where the file system does not tell,
/// it is taken at its word.
std::string status_now(const std::filesystem::path& run_folder, std::string recorded);

}  // namespace runner
