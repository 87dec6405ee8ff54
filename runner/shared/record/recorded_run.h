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

/// The part of a run's record that describes how to reproduce it.
struct RecordedRun {
  std::filesystem::path folder;
  std::filesystem::path
      recipe;          ///< the recipe as resolved when the run was last started or resumed
  std::string device;  ///< the device used by the run, "cpu" or "cuda:0"
  std::string device_uuid = {};  ///< the GPU's UUID, if no other GPU was visible to the worker
  int threads = 0;               ///< number of threads for tensor operations
  std::string source = {};       ///< for an evaluation: the folder of the run that has the weights
  std::string
      status;  ///< from summary.json: "running" if the run was killed; empty if there is no summary
  bool smoke = false;                      ///< true for a smoke run
  std::vector<std::string> finished = {};  ///< nodes that had finished when summary.json was
                                           ///< written
};

/// Returns the folders of the runs in `folder`, such as outputs/, sorted: `folder` itself if it is
/// a run, otherwise the runs up to three levels below it. Does not follow links.
std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder);

/// Returns the title of each node of the run in `folder`, by id, such as "train[rate=0.001]". Omits
/// nodes without a title in the record.
std::map<std::string, std::string> node_titles(const std::filesystem::path& folder);

/// Returns the folder against which relative paths in `recipe` are resolved if that is the recipe
/// in a run's record: the folder in which the run was started. Returns nullopt if `recipe` is some
/// other file or that folder no longer exists.
std::optional<std::filesystem::path> working_folder_of(const std::filesystem::path& recipe);

/// If `recipe` is the recipe in a run's record, returns the folder of the recipe from which the run
/// was started. The run's Python code could import modules from that folder in addition to the
/// working folder. Returns nullopt if `recipe` is some other file or the record does not contain
/// the folder.
std::optional<std::filesystem::path> code_folder_of(const std::filesystem::path& recipe);

/// Reads the record in `folder`. kNoRun if it is not a run folder, or if the run was killed before
/// its record was complete.
Result<RecordedRun> read_run(const std::filesystem::path& folder);

/// Sets the threads of `graph` to those of `run`, unless an override has changed them from
/// `before`, the graph in the run's record. Returns true if the requested device is unchanged, so
/// the run's device must be used again. The exact bits of the results depend on both, so `auto`
/// must resolve to the same values as in the run.
bool keep_machine(Graph& graph, const Graph& before, const RecordedRun& run);

/// Returns the location of each training node's weights in the folder of `run`, which ran `graph`.
/// `which` is "best", "latest", a checkpoint's folder, or empty for the checkpoint that each node
/// keeps. kNoCheckpoint if there is no training node or one of them has saved nothing; kUsage if a
/// folder is given but there are several training nodes.
Result<CheckpointSources> find_checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                                  const std::string& which);

/// True if the run in `folder` has training nodes and each of them has saved weights.
bool has_weights(const std::filesystem::path& folder);

/// Returns the training node to predict with: `wanted` or, if that is empty, the only node in
/// `trained`. kUsage if `wanted` is not in `trained`, or if it is empty and there are several
/// nodes.
Result<std::string> choose_training(const CheckpointSources& trained, const std::string& wanted);

/// The lock on a run, taken on its .retort folder and valid across machines (folder_lock.h). It is
/// held by the process working on the run. retort shares it with its worker, so the run cannot be
/// resumed before both have exited.
class RunLock {
 public:
  /// Takes the lock for the retort process that starts or resumes the run. Waits briefly for a
  /// worker left behind by a killed retort, and longer for heartbeats from a retort on another
  /// machine, a wait that is reported through Lease::Options::on_wait. kRunBusy if the run is in
  /// progress.
  static Result<RunLock> take(const std::filesystem::path& run_folder, Lease::Options options = {});
  /// Joins the lock. Called by the worker of the retort process that took it.
  static Result<RunLock> join(const std::filesystem::path& run_folder);

 private:
  explicit RunLock(FolderLock lock) : lock_(std::move(lock)) {}
  FolderLock lock_;
};

/// Returns the current status of a run with the status `recorded` in its summary: "interrupted"
/// instead of "running" if the lock is free, which means that the run was killed. If the file
/// system cannot determine whether the lock is free, returns `recorded`.
std::string status_now(const std::filesystem::path& run_folder, std::string recorded);

}  // namespace runner
