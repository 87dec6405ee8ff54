#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/recorded_evaluation.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What runs came to, and in what their recipes differ.
struct Comparison {
  /// An evaluation: a row of the table and a bar of the picture.
  struct Row {
    std::string folder, recipe, data;  ///< as given; the recipe's name; the name of its data
    double seconds = 0;                ///< of the whole run's work; 0: unknown
    RecordedEvaluation evaluation;
    std::string label;  ///< the recipe's name, or where several have that the folder; with the node
                        ///< where a run has several
    std::string title = {};  ///< the folder; likewise with the node
  };
  /// A key that the recipes hold differently.
  struct Field {
    std::string key;
    std::vector<std::optional<Value>> values;  ///< by run; absent where its recipe lacks the key
  };
  /// A number that evaluations without classes have measured.
  struct Measure {
    std::string name;  ///< of the node, as people read it, and of the metric
    std::vector<std::optional<double>> values;  ///< by run
  };
  std::vector<std::string> folders;  ///< of the runs that are compared, in order
  std::vector<Row> rows;             ///< evaluations of classes
  std::vector<Measure> measures;
  std::vector<Field> differences;  ///< without name and run, which say nothing of the work
};

/// Of at least two evaluated runs; `sources` takes in the recipes' texts. Those that are not are
/// left out with a warning (kNoResults); where fewer than two remain, that is the error.
/// kDamagedRecord where a record cannot be read.
Result<Comparison> compare_runs(std::span<const RecordedRun> runs, Sources& sources,
                                Diagnostics& warnings);

/// Puts the best row first by "accuracy", "per_class", "loss" or "time"; equal ones stay in order.
void sort_rows(Comparison& comparison, const std::string& column);

/// Tables: what the runs came to, and in what they differ.
std::string comparison_text(const Comparison& comparison);

/// {"runs": […], "measures": [{"name", "values"}], "differences": [{"key", "values"}]}.
nlohmann::ordered_json to_json(const Comparison& comparison);

/// model_comparison.svg: a bar for the accuracy of each row, from 0 to 100 %, with its 95 %
/// interval.
std::string draw_comparison(const Comparison& comparison);

}  // namespace runner
