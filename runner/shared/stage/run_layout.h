#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace runner {

/// The layout of a node's folder, nodes/<id>/ of a run.
///
///   finished.json          it has run to its end (finished_node.h)
///   reused.json            whose results these are, where they are another run's
///   plan.json              what its memory was planned to be
///   division.gz            of images: which of them are in which part (stages/artifact/division.h)
///   training_metrics.json  of a training: what its epochs measured; by retort
///   checkpoints/           of a training: step-00001234/ and so on (checkpoint_name.h)
///   metrics.json           of an evaluation, and its curves.json, or its episodes.csv
class NodeLayout {
 public:
  explicit NodeLayout(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path finished() const;
  std::filesystem::path reused() const;
  std::filesystem::path plan() const;
  std::filesystem::path division() const;
  std::filesystem::path training_metrics() const;
  std::filesystem::path checkpoints() const;
  std::filesystem::path metrics() const;
  std::filesystem::path curves() const;
  std::filesystem::path episodes() const;

  /// Is the file `name`, below such a folder, an account that the executor keeps, and no result of
  /// the stage?
  static bool is_account(std::string_view name);

 private:
  std::filesystem::path folder_;
};

/// The files in which retort keeps what was asked, in .retort/ or .retort/resume-N/.
struct RunRecord {
  static constexpr std::string_view kMark =
      "run.json";  ///< marks the folder as a run's; not of a resume
  static constexpr std::string_view kSource =
      "source.json";  ///< of an evaluation: whose weights it took
  static constexpr std::string_view kConfig = "config.yaml";  ///< as composed; not of a resume
  static constexpr std::string_view kOverrides = "overrides.yaml";  ///< as typed
  static constexpr std::string_view kRecipe = "recipe.yaml";        ///< resolved
  static constexpr std::string_view kGraph = "graph.json";          ///< compiled
  static constexpr std::string_view kEnvironment =
      "environment.json";  ///< written last: with it the record is whole
};

/// The layout of a run's folder, for everything that writes or reads there. No name of a file in it
/// is written anywhere else.
///
///   .retort/            what was asked, by retort: RunRecord; of the first resume in
///   .retort/resume-1/, and so on metrics.jsonl       one measured number a line log.txt what was
///   said, and what the worker printed summary.json        how it went tags.json           what it
///   is called, by `retort runs tag` (run_tags.h); not there before the first nodes/<id>/ one
///   node's files, by the worker: NodeLayout analysis/           the pictures of `retort analyze`
///   export/<name>/      what `retort export` wrote
///
///   RunLayout(folder).node("train").checkpoints()
class RunLayout {
 public:
  explicit RunLayout(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path records() const;
  std::filesystem::path mark() const;
  std::filesystem::path source() const;
  std::filesystem::path resume(int number) const;  ///< counted from 1
  std::filesystem::path metrics() const;
  std::filesystem::path log() const;
  std::filesystem::path summary() const;
  std::filesystem::path tags() const;
  std::filesystem::path analysis() const;
  std::filesystem::path exported(std::string_view name) const;
  std::filesystem::path nodes() const;
  NodeLayout node(std::string_view id) const;

 private:
  std::filesystem::path folder_;
};

/// The folder of the run that contains `path`; nullopt if there is none.
std::optional<std::filesystem::path> run_of(const std::filesystem::path& path);

/// Below it runs go that are not told where: outputs/<date>/<time>.
std::filesystem::path default_runs_folder(const std::filesystem::path& working_folder);

}  // namespace runner
