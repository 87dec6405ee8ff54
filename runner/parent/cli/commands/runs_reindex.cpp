#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"

namespace runner {

ExitCode reindex_runs(const RunsFlags& flags, Console& console) {
  auto wish = listing_wish(flags, console);
  if (!wish) return report(console, wish.errors());
  const std::filesystem::path indexes = run_index_folder();
  if (!wish->filter.keys().empty() || indexes.empty()) {
    return report(console,
                  {{ErrorCode::kUsage,
                    {},
                    "",
                    indexes.empty() ? "there is no place for an index" : "`retort runs reindex` takes no filter",
                    indexes.empty() ? "set RETORT_CACHE to a folder; without one `runs ls` reads every run"
                                    : "it reads all runs of a folder"}});
  }
  wish->anew = true;
  Diagnostics warnings;
  const auto listing = list_runs(*wish, indexes, warnings);
  if (!listing) return report(console, listing.errors());
  warn(console, warnings);
  const auto damaged =
      std::ranges::count_if(listing->runs, [](const ListedRun& run) { return !run.entry.problem.empty(); });
  if (console.json) {
    print_result(console, "runs_reindex/1",
                 {{"runs", listing->all}, {"damaged", damaged}, {"folder", indexes.string()}});
  } else {
    console.out << listing->all << (listing->all == 1 ? " run" : " runs") << " in the index";
    if (damaged > 0) console.out << ", " << damaged << " of them damaged";
    console.out << ": " << indexes.string() << '\n';
  }
  return ExitCode::kDone;
}

}  // namespace runner
