#include "runner/parent/page/recorded_document.h"

#include <array>

#include "runner/parent/page/comparison_document.h"
#include "runner/parent/page/run_document.h"
#include "runner/parent/registry/run_details.h"
#include "runner/parent/report/comparison.h"
#include "runner/parent/report/run_report.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {
namespace {

Result<ComparedRun> read_compared(const std::filesystem::path& folder, Sources& sources,
                                  Diagnostics& warnings) {
  auto details = read_details(folder, sources, warnings);
  if (!details) return details.errors();
  auto results = read_report(details->run);
  if (!results) return results.errors();
  return ComparedRun{*std::move(details), *std::move(results)};
}

}  // namespace

Result<Document> document_of_run(const std::filesystem::path& folder, Sources& sources,
                                 Diagnostics& warnings) {
  const auto run = read_compared(folder, sources, warnings);
  if (!run) return run.errors();
  return run_document(run->details, run->report);
}

Result<Document> document_of_sweep(const std::filesystem::path& folder, Sources& sources,
                                   const TrialAddress& address) {
  const auto plan = SweepJournal::read(folder);
  if (!plan) return plan.errors();
  return sweep_document(folder, *plan, read_results(folder, *plan, "auto", &sources), address);
}

Result<Document> document_of_comparison(const std::filesystem::path& first,
                                        const std::filesystem::path& second, Sources& sources) {
  Diagnostics warnings;  // they are on each run's own page
  const auto a = read_compared(first, sources, warnings);
  if (!a) return a.errors();
  const auto b = read_compared(second, sources, warnings);
  if (!b) return b.errors();
  const std::array runs = {a->details.run, b->details.run};
  const auto results = compare_runs(runs, sources, warnings);
  return comparison_document(*a, *b, results ? &*results : nullptr);
}

}  // namespace runner
