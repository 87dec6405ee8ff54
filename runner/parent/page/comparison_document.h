#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/registry/run_details.h"
#include "runner/parent/report/comparison.h"
#include "runner/parent/report/run_report.h"

namespace runner {

/// A run, as read for its report and for a comparison.
struct ComparedRun {
  RunDetails details;
  RunReport report;
};

/// Returns a comparison of two runs, "A" and "B": what they are, the settings that differ, their
/// metrics side by side, the curves of training nodes with the same name on the same charts, and
/// how their environments differ. `results` compares their evaluations; null unless both were
/// evaluated.
Document comparison_document(const ComparedRun& a, const ComparedRun& b, const Comparison* results);

}  // namespace runner
