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

/// The results of runs, and how their recipes differ.
struct Comparison {
  /// An evaluation: a row of the table and a bar of the drawing.
  struct Row {
    std::string folder, recipe, data;  ///< as given; the recipe's name; the name of its data
    double seconds = 0;                ///< of the whole run's work; 0: unknown
    RecordedEvaluation evaluation;
    std::string label;  ///< the recipe's name, or the folder if several have that name; with the
                        ///< node if a run has several
    std::string title = {};  ///< the folder; also with the node if a run has several
  };
  /// A key whose value differs between the recipes.
  struct Field {
    std::string key;
    std::vector<std::optional<Value>> values;  ///< by run; absent if its recipe lacks the key
  };
  /// A number from evaluations without classes.
  struct Measure {
    std::string name;                           ///< the node's display name and the metric's name
    std::vector<std::optional<double>> values;  ///< by run
  };
  std::vector<std::string> folders;  ///< of the compared runs, in order
  std::vector<Row> rows;             ///< evaluations with classes
  std::vector<Measure> measures;
  std::vector<Field> differences;  ///< without name and run, which do not affect the result
};

/// Compares at least two evaluated runs; `sources` receives the texts of the recipes. Runs that
/// were not evaluated are left out with a warning (kNoResults); if fewer than two remain, that is
/// the error. kDamagedRecord if a record cannot be read.
Result<Comparison> compare_runs(std::span<const RecordedRun> runs, Sources& sources,
                                Diagnostics& warnings);

/// Sorts by "accuracy", "per_class", "loss" or "time", the best row first; equal ones keep their
/// order.
void sort_rows(Comparison& comparison, const std::string& column);

/// Tables of the results and of the differences.
std::string comparison_text(const Comparison& comparison);

/// {"runs": […], "measures": [{"name", "values"}], "differences": [{"key", "values"}]}.
nlohmann::ordered_json to_json(const Comparison& comparison);

/// model_comparison.svg: a bar for the accuracy of each row, from 0 to 100 %, with its 95 %
/// interval.
std::string draw_comparison(const Comparison& comparison);

}  // namespace runner
