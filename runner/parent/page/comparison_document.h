#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/registry/run_details.h"
#include "runner/parent/report/comparison.h"
#include "runner/parent/report/run_report.h"

namespace runner {

/// A run as its report and a comparison read it.
struct ComparedRun {
  RunDetails details;
  RunReport report;
};

/// Returns a comparison of two runs, "A" and "B": what they are, the settings that differ, their
/// metrics side by side, the curves of trainings with the same node on the same charts, and the
/// differences of their environments. `results` compares their evaluations; null if they were not
/// both evaluated.
Document comparison_document(const ComparedRun& a, const ComparedRun& b, const Comparison* results);

}  // namespace runner
