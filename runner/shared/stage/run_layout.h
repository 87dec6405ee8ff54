#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace runner {

/// The layout of a node's folder, nodes/<id>/ of a run.
///
///   finished.json          the node has finished (node_index.h)
///   reused.json            if the results come from another run: that run
///   plan.json              the memory plan
///   division.gz            for images: the part of each image (stages/artifact/division.h)
///   training_metrics.json  for training: the metrics of each epoch, written by retort
///   checkpoints/           for training: step-00001234/ and so on (checkpoint_files.h)
///   metrics.json           for evaluation, with curves.json or episodes.csv
///   examples/              for evaluation: images with predictions, and examples.json
///                          (example_images.h)
///   similarity.json        for retrieval: cosines of images and captions
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
  std::filesystem::path examples() const;
  std::filesystem::path similarity() const;

  /// True if `name`, a path relative to a node's folder, is bookkeeping by the executor rather than
  /// a result of the stage.
  static bool is_account(std::string_view name);

 private:
  std::filesystem::path folder_;
};

/// The files in .retort/ or .retort/resume-N/ in which retort records what was requested.
struct RunRecord {
  static constexpr std::string_view kMark =
      "run.json";  ///< marks the folder of a run; not for a resume
  static constexpr std::string_view kSource =
      "source.json";  ///< for an evaluation: the run that has the weights
  static constexpr std::string_view kConfig = "config.yaml";  ///< as composed; not for a resume
  static constexpr std::string_view kOverrides = "overrides.yaml";  ///< the overrides as typed
  static constexpr std::string_view kRecipe = "recipe.yaml";        ///< the resolved recipe
  static constexpr std::string_view kOrigins =
      "origins.json";  ///< where each value of the resolved recipe comes from
  static constexpr std::string_view kGraph = "graph.json";  ///< the compiled graph
  static constexpr std::string_view kPython =
      "python";  ///< a folder with copies of the Python files that the entries name
  static constexpr std::string_view kEnvironment =
      "environment.json";  ///< written last, which completes the record
};

/// The layout of a run's folder. All code that reads or writes there uses it, and no other code
/// defines file names in it.
///
///   .retort/            what was requested: RunRecord, written by retort; the first resume writes
///                       to .retort/resume-1/, and so on
///   .retort/mlflow.json what retort-tracker has sent to MLflow servers (mlflow_state.h)
///   metrics.jsonl       one metric per line
///   histograms.jsonl    one gradient histogram per line (histograms_file.h); may be absent
///   log.txt             messages, and what the worker printed
///   summary.json        the outcome
///   tags.json           what `retort runs tag` wrote (run_entry.h); absent before the first tag
///   nodes/<id>/         the files that the worker writes for one node: NodeLayout
///   tensorboard/        the run for TensorBoard, one subfolder per node (tensorboard_log.h)
///   analysis/           the output of `retort analyze`
///   report.html, report.md   the output of `retort report`
///   export/<name>/      the output of `retort export`
///   ranks/<K>/          with several ranks: the files of rank K, except rank 0
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
  std::filesystem::path mlflow() const;
  std::filesystem::path metrics() const;
  std::filesystem::path histograms() const;
  std::filesystem::path log() const;
  std::filesystem::path summary() const;
  std::filesystem::path tags() const;
  std::filesystem::path tensorboard() const;
  std::filesystem::path analysis() const;
  std::filesystem::path report(bool is_html) const;  ///< HTML or Markdown
  std::filesystem::path exported(std::string_view name) const;
  std::filesystem::path nodes() const;
  std::filesystem::path ranks() const;
  std::filesystem::path rank(int number) const;
  NodeLayout node(std::string_view id) const;

 private:
  std::filesystem::path folder_;
};

/// Returns the folder of the run that `path` is in; nullopt if there is none.
std::optional<std::filesystem::path> run_of(const std::filesystem::path& path);

/// The journal of a sweep, in the sweep's folder; its presence marks the folder as a sweep.
inline constexpr std::string_view kSweepJournal = "sweep.jsonl";

/// Returns the folder of the sweep that the run in `run` is a trial of; nullopt if it is not a
/// trial.
std::optional<std::filesystem::path> sweep_of(const std::filesystem::path& run);
/// Returns the file that records what has been sent to MLflow servers about the sweep as a whole;
/// like RunLayout::mlflow().
std::filesystem::path mlflow_of_sweep(const std::filesystem::path& sweep);

/// Returns the default folder for new runs: outputs/<date>/<time>.
std::filesystem::path default_runs_folder(const std::filesystem::path& working_folder);

}  // namespace runner
