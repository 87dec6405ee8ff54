#pragma once

#include <filesystem>

#include "runner/parent/page/document.h"
#include "runner/parent/page/sweep_document.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Reads the record of the run in `folder` and returns its report (run_document.h). The text of its
/// recipe is added to `sources`. Fails with kNoRun or kDamagedRecord.
Result<Document> document_of_run(const std::filesystem::path& folder, Sources& sources,
                                 Diagnostics& warnings);

/// Reads the sweep in `folder` and returns its report (sweep_document.h). Fails with kNoRun or
/// kDamagedRecord.
Result<Document> document_of_sweep(const std::filesystem::path& folder, Sources& sources,
                                   const TrialAddress& address = {});

/// Reads the records of two runs and compares them side by side: their results, the settings that
/// differ, their metrics, and their curves on the same charts. Fails with kNoRun or kDamagedRecord.
Result<Document> document_of_comparison(const std::filesystem::path& first,
                                        const std::filesystem::path& second, Sources& sources);

}  // namespace runner
