#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/recorded_evaluation.h"
#include "runner/parent/svg/drawing.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/text/terminal.h"
#include "runner/shared/value/value.h"

namespace runner {

struct Difference;

/// The results of several runs, and the differences between their recipes.
struct Comparison {
  /// An evaluation: a row in the table and a bar in the drawing.
  struct Row {
    std::string folder, recipe, data;  ///< folder as given; names of the recipe and the data
    double seconds = 0;                ///< working time of the whole run; 0: unknown
    RecordedEvaluation evaluation;
    /// The settings that differ, "epochs=5, seed=2", if there are few of them and no two runs share
    /// them; otherwise the recipe's name, or the folder if several rows share the name. Includes
    /// the node if a run has several evaluations.
    std::string label;
    std::string title = {};  ///< the folder, with the node if a run has several evaluations
  };
  /// A key with different values in the recipes.
  struct Field {
    std::string key;
    std::vector<std::optional<Value>> values;  ///< indexed by run; nullopt if the recipe lacks the
                                               ///< key
  };
  /// A metric of evaluations without classes.
  struct Measure {
    std::string name;                           ///< the node's display name and the metric's name
    std::vector<std::optional<double>> values;  ///< by run
  };
  std::vector<std::string> folders;  ///< of the compared runs, in order
  /// Remarks for readers of the results, by run (Graph::remarks).
  std::vector<std::vector<std::string>> remarks;
  std::vector<Row> rows;  ///< evaluations with classes
  /// Evaluations of samples with any number of labels, whose metrics are among `measures`. Only the
  /// node and the title of their `evaluation` are set.
  std::vector<Row> multi_label;
  std::vector<Measure> measures;
  std::vector<Field> differences;  ///< excludes name, run and aliases, which do not affect results
};

/// True if results may depend on a setting that differs; name, run and aliases do not affect them.
bool affects_results(const Difference& difference);

/// Compares at least two evaluated runs. The texts of the recipes are added to `sources`. Skips
/// runs that were not evaluated, with a warning (kNoResults), or with an error if fewer than two
/// runs remain. kDamagedRecord if a record cannot be read.
Result<Comparison> compare_runs(std::span<const RecordedRun> runs, Sources& sources,
                                Diagnostics& warnings);

/// Keeps only the evaluations of `node`, a node's id or display name. kUsage if no run has such an
/// evaluation; the message lists those that exist.
Result<Comparison> only_node(Comparison comparison, const std::string& node);

/// Sorts by "accuracy", "per_class", "loss" or "time", best row first; equal rows keep their order.
void sort_rows(Comparison& comparison, const std::string& column);

/// Returns tables of the results and the differences.
std::string comparison_text(const Comparison& comparison, const TextStyle& style = {});

/// Returns {"runs": […], "measures": [{"name", "values"}], "differences": [{"key", "values"}]}.
nlohmann::ordered_json to_json(const Comparison& comparison);

/// Draws model_comparison.svg: a bar for the accuracy of each row, from 0 to 100%, with its 95%
/// confidence interval.
Drawing draw_comparison(const Comparison& comparison);

}  // namespace runner
