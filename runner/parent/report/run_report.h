#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/record/run_folder.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// The measurements of a run, from the files of its record.
struct RunReport {
  std::string folder, recipe, status;  ///< as given; the recipe's name; as in summary.json
  double seconds = 0;                  ///< working time; 0: unknown
  /// The training stages that finished an epoch, by node.
  std::vector<std::pair<std::string, TrainingHistory>> trainings;
  std::vector<RecordedEvaluation> evaluations;  ///< evaluations with classes
  std::vector<RecordedMeasures> measures;       ///< of evaluations without classes
  /// The training stages with a monitored metric, by node.
  std::map<std::string, BestValidation> bests;
  std::vector<std::string> remarks;           ///< what readers should know (Graph::remarks)
  std::map<std::string, std::string> titles;  ///< display names of nodes by id
  std::vector<MetricLine> metrics;            ///< all metrics, in the order of measurement
  std::size_t damaged_metrics = 0;            ///< number of unreadable lines of metrics.jsonl
};

/// Reads the results of a run. Returns a kDamagedRecord error for each damaged file. The report of
/// a run without metrics is empty.
Result<RunReport> read_report(const RecordedRun& run);

/// Samples of one class that were predicted as another.
struct Confusion {
  std::string truth, predicted;
  std::int64_t count = 0;
};
/// Returns up to `most` confusions, the most frequent first.
std::vector<Confusion> most_confused(const RecordedEvaluation& evaluation, std::size_t most);

/// Returns one or more lines of text for each training stage and evaluation.
std::string report_text(const RunReport& report);

/// Returns {"run", "recipe", "status", "seconds", "trainings": […], "evaluations": […], "measures":
/// […]}.
nlohmann::ordered_json to_json(const RunReport& report);

}  // namespace runner
