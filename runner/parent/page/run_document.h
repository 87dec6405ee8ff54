#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/registry/run_details.h"
#include "runner/parent/report/run_report.h"

namespace runner {

/// Returns the report of a run: what it is and how it ended, results, training curves, memory
/// against the plan, stages, recipe with the origin of its values, and environment. Reads plans,
/// metrics and example images from the run's folder; leaves out what does not exist.
Document run_document(const RunDetails& details, const RunReport& report);

}  // namespace runner
