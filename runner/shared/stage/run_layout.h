#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace runner {

/// The layout of a node's folder, nodes/<id>/ of a run.
///
///   finished.json          it has run to its end (node_index.h)
///   reused.json            the run that its results come from, if another one
///   plan.json              its memory plan
///   division.gz            of images: which of them are in which part (stages/artifact/division.h)
///   training_metrics.json  of a training: the metrics of its epochs; by retort
///   checkpoints/           of a training: step-00001234/ and so on (checkpoint_files.h)
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

  /// True if the file `name`, below such a folder, is the executor's bookkeeping and not a result
  /// of the stage.
  static bool is_account(std::string_view name);

 private:
  std::filesystem::path folder_;
};

/// The files in which retort records what was requested, in .retort/ or .retort/resume-N/.
struct RunRecord {
  static constexpr std::string_view kMark =
      "run.json";  ///< marks the folder as a run's; not of a resume
  static constexpr std::string_view kSource =
      "source.json";  ///< for an evaluation: the run that its weights come from
  static constexpr std::string_view kConfig = "config.yaml";  ///< as composed; not of a resume
  static constexpr std::string_view kOverrides = "overrides.yaml";  ///< as typed
  static constexpr std::string_view kRecipe = "recipe.yaml";        ///< resolved
  static constexpr std::string_view kGraph = "graph.json";          ///< compiled
  static constexpr std::string_view kPython =
      "python";  ///< a folder: copies of the Python files that its entries name
  static constexpr std::string_view kEnvironment =
      "environment.json";  ///< written last: it makes the record complete
};

/// The layout of a run's folder, for all code that reads or writes there. File names in it are
/// defined nowhere else.
///
///   .retort/            what was requested, by retort: RunRecord; for the first resume in
///                       .retort/resume-1/, and so on
///   metrics.jsonl       one metric per line
///   log.txt             what was said, and what the worker printed
///   summary.json        how it went
///   tags.json           its tags, by `retort runs tag` (run_tags.h); absent before the first tag
///   nodes/<id>/         one node's files, by the worker: NodeLayout
///   analysis/           the output of `retort analyze`
///   export/<name>/      the output of `retort export`
///   ranks/<K>/          of a run with several ranks: what the K-th writes, except the first
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
  std::filesystem::path ranks() const;
  std::filesystem::path rank(int number) const;
  NodeLayout node(std::string_view id) const;

 private:
  std::filesystem::path folder_;
};

/// The folder of the run that contains `path`; nullopt if there is none.
std::optional<std::filesystem::path> run_of(const std::filesystem::path& path);

/// The default folder for new runs: outputs/<date>/<time>.
std::filesystem::path default_runs_folder(const std::filesystem::path& working_folder);

}  // namespace runner
