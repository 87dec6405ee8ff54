#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/registry/run_details.h"
#include "runner/parent/report/run_report.h"

namespace runner {

/// The number of steps of an epoch that were skipped; shown among the events, not as a curve.
inline constexpr std::string_view kSkippedSteps = "train/epoch_skipped_steps";

/// Returns the events of a run as rows of a table, with a header row: the errors of earlier
/// attempts, the warnings and errors of the last one, recoveries, skipped steps and resumes.
std::vector<std::vector<std::string>> event_rows(const RunDetails& details,
                                                 const RunReport& report);

}  // namespace runner
