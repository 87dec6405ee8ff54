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

/// What the record of a run says about how to reproduce it.
struct RecordedRun {
  std::filesystem::path folder;
  std::filesystem::path
      recipe;          ///< the resolved recipe, as it was when the run was last started or resumed
  std::string device;  ///< the device that it ran on, "cpu" or "cuda:0"
  std::string device_uuid =
      {};                   ///< its UUID, if it was the only GPU visible to the worker; else empty
  int threads = 0;          ///< number of threads for tensor operations
  std::string source = {};  ///< for an evaluation: the folder of the run that the weights came from
  std::string
      status;  ///< from summary.json: "running" if the run was killed; empty if there is none
  bool smoke = false;                      ///< it was a smoke run
  std::vector<std::string> finished = {};  ///< the nodes that had finished when summary.json was
                                           ///< written
};

/// The folders of the runs in `folder`, such as outputs/, sorted: `folder` itself if it is a run,
/// else those up to three levels below it. Links are not followed.
std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder);

/// The title of each node of the run in `folder`, by id: "train[rate=0.001]". Omits nodes for which
/// the record has no title.
std::map<std::string, std::string> node_titles(const std::filesystem::path& folder);

/// The base of relative paths in `recipe`, if that is the recipe in the record of a run: the folder
/// that the run was started in. nullopt if it is another file, or that folder no longer exists.
std::optional<std::filesystem::path> working_folder_of(const std::filesystem::path& recipe);

/// Where the code of a run of `recipe` found its modules besides the working folder, if that is the
/// recipe in the record of a run: the folder of the recipe that the run was started with. nullopt
/// if it is another file, or the record does not say.
std::optional<std::filesystem::path> code_folder_of(const std::filesystem::path& recipe);

/// Reads the record in `folder`. kNoRun if it is not a run's folder or the run was killed before
/// its record was complete.
Result<RecordedRun> read_run(const std::filesystem::path& folder);

/// Sets the threads of `graph` to those of `run`, unless an override has changed them since
/// `before`, the graph of its record. True if the requested device is unchanged, so that the run's
/// device must be used again. Results depend on both bit for bit, so `auto` must resolve to the
/// same values as then.
bool keep_machine(Graph& graph, const Graph& before, const RecordedRun& run);

/// The trainings among the nodes of `graph`, and where their weights are in the folder of `run`,
/// which ran it. `which`: "best", "latest", a checkpoint's folder, or empty for the checkpoint that
/// each training keeps. kNoCheckpoint if there is no training or one has saved nothing, kUsage if a
/// folder is given for several trainings.
Result<CheckpointSources> find_checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                                  const std::string& which);

/// True if the run in `folder` has trained something and each of its trainings has saved its own
/// weights.
bool has_weights(const std::filesystem::path& folder);

/// The node to predict with: `wanted`, or if that is empty the only one of `trained`; else kUsage.
Result<std::string> choose_training(const CheckpointSources& trained, const std::string& wanted);

/// The lock on a run's folder: on .retort, across machines (folder_lock.h). The process that works
/// on a run holds it. retort and its worker hold it together, so the run cannot be resumed before
/// both have ended.
class RunLock {
 public:
  /// For the retort that starts or resumes the run. Waits a moment for a worker whose retort was
  /// killed, and for signs of life of a retort on another machine, which it reports by
  /// Lease::Options::on_wait. kRunBusy if the run is in progress.
  static Result<RunLock> take(const std::filesystem::path& run_folder, Lease::Options options = {});
  /// For the worker of the retort that took it.
  static Result<RunLock> join(const std::filesystem::path& run_folder);

 private:
  explicit RunLock(FolderLock lock) : lock_(std::move(lock)) {}
  FolderLock lock_;
};

/// The status of a run whose summary says `recorded`: "interrupted" if that is "running" but the
/// lock is free, since the run was then killed; else `recorded`. Also `recorded` if the file system
/// cannot say whether the lock is held.
std::string status_now(const std::filesystem::path& run_folder, std::string recorded);

}  // namespace runner
