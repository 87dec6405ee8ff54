#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/registry/run_details.h"
#include "runner/parent/report/run_report.h"

namespace runner {

/// Adds the results of all evaluations of a run: metrics, charts, a table of the classes, and the
/// most confident wrong predictions. Adds nothing if nothing was evaluated.
void add_evaluations(Document& document, const RunDetails& details, const RunReport& report);

}  // namespace runner
