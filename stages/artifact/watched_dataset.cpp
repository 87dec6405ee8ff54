#include "stages/artifact/watched_dataset.h"

#include <iterator>
#include <numeric>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/text/join.h"

namespace stages {

void tell_strangers(std::initializer_list<const Dataset*> datasets, std::int64_t step, runner::RunContext& context) {
  constexpr std::size_t kNamed = 3;
  if (context.node().smoke) return;  // which has read a few, and what was ahead of these
  WatchedDataset::Strangers all;
  for (const Dataset* dataset : datasets) {
    const auto* watched = dynamic_cast<const WatchedDataset*>(dataset);
    if (!watched) continue;
    std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset->describe().size));
    std::iota(indices.begin(), indices.end(), 0);
    WatchedDataset::Strangers some = watched->take_strangers(indices);
    all.count += some.count;
    std::move(some.untold.begin(), some.untold.end(), std::back_inserter(all.untold));
    all.what = std::move(some.what);
  }
  if (all.count > 0) context.metric("data/strangers", static_cast<double>(all.count), step);
  if (all.untold.empty()) return;
  context.say("warning: " + std::to_string(all.untold.size()) +
              (all.untold.size() == 1 ? " picture does" : " pictures do") + " not look like " + all.what + ": " +
              runner::listed(all.untold, kNamed, "'"));
}

}  // namespace stages
