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
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// What a run has measured, from the files of its record.
struct RunReport {
  std::string folder, recipe, status;  ///< as given; the recipe's name; as in summary.json
  double seconds = 0;                  ///< of work; 0: unknown
  std::vector<std::pair<std::string, TrainingHistory>>
      trainings;                                ///< by node, those that finished an epoch
  std::vector<RecordedEvaluation> evaluations;  ///< with classes
  std::vector<RecordedMeasures> measures;       ///< of evaluations without classes
  std::map<std::string, BestValidation>
      bests;  ///< of the trainings that name a monitored metric, by node
  std::map<std::string, std::string> titles;  ///< display names of nodes by id
  std::size_t damaged_metrics = 0;            ///< number of unreadable lines of metrics.jsonl
};

/// Every kDamagedRecord; a run that has measured nothing gives an empty report.
Result<RunReport> read_report(const RecordedRun& run);

/// One or a few lines of text for each training and evaluation.
std::string report_text(const RunReport& report);

/// {"run", "recipe", "status", "seconds", "trainings": […], "evaluations": […], "measures": […]}.
nlohmann::ordered_json to_json(const RunReport& report);

}  // namespace runner
