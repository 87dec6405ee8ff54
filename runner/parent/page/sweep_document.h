#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// Returns the report of the sweep in `folder`: its trials, best first, parallel coordinates of
/// their settings, the effect of each key, the means over seeds, and its cross-validations.
Document sweep_document(const std::filesystem::path& folder, const SweepPlan& plan,
                        const SweepResults& results);

}  // namespace runner
