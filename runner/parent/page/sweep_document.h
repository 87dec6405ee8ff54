#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "runner/parent/page/document.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// Returns the address of a trial's page; empty if it has none.
using TrialAddress = std::function<std::string(std::uint64_t trial)>;

/// Returns the report of the sweep in `folder`: its trials, best first, parallel coordinates of
/// their settings, the effect of each key, the means over seeds, and its cross-validations.
/// `address` may be empty.
Document sweep_document(const std::filesystem::path& folder, const SweepPlan& plan,
                        const SweepResults& results, const TrialAddress& address = {});

}  // namespace runner
