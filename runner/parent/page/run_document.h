#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/registry/run_details.h"
#include "runner/parent/report/run_report.h"

namespace runner {

/// Returns the report of a run: what it is and how it ended, results, training curves, memory use
/// compared to the plan, stages, recipe with the origins of its values, and environment. Reads
/// plans, metrics and example images from the run's folder; anything missing is omitted.
Document run_document(const RunDetails& details, const RunReport& report);

}  // namespace runner
