#include "stages/artifact/remarking_dataset.h"

#include <iterator>
#include <numeric>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/text/join.h"

namespace stages {

void report_remarks(std::initializer_list<const Dataset*> datasets, std::int64_t step, runner::RunContext& context) {
  constexpr std::size_t kNamed = 3;
  if (context.node().smoke) return;  // which has read a few, and what was ahead of these
  RemarkingDataset::Remarks all;
  for (const Dataset* dataset : datasets) {
    const auto* remarking = dynamic_cast<const RemarkingDataset*>(dataset);
    if (!remarking) continue;
    std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset->describe().size));
    std::iota(indices.begin(), indices.end(), 0);
    RemarkingDataset::Remarks some = remarking->take_remarks(indices);
    all.count += some.count;
    std::move(some.unreported.begin(), some.unreported.end(), std::back_inserter(all.unreported));
    all.verdict = std::move(some.verdict);
    all.metric = std::move(some.metric);
  }
  if (all.count > 0) context.metric(all.metric, static_cast<double>(all.count), step);
  if (all.unreported.empty()) return;
  context.say("warning: " + std::to_string(all.unreported.size()) +
              (all.unreported.size() == 1 ? " picture does " : " pictures do ") + all.verdict + ": " +
              runner::listed(all.unreported, kNamed, "'"));
}

}  // namespace stages
