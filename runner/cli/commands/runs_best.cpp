#include <nlohmann/json.hpp>

#include "runner/cli/commands/runs.h"

namespace runner {

/// Only the folder goes to standard output: `retort predict $(retort runs best) cat.jpg`.
ExitCode show_best_run(const RunsFlags& flags, Console& console) {
  auto wish = listing_wish(flags, console);
  if (!wish) return report(console, wish.errors());
  wish->keys.push_back(flags.metric.empty() ? "accuracy" : flags.metric);
  Diagnostics warnings;
  auto listing = list_runs(*wish, run_index_folder(), warnings);
  if (!listing) return report(console, listing.errors());
  warn(console, warnings);
  const std::size_t at = listing->keys.size() - 1;
  const IndexedKey key = listing->keys[at];
  std::erase_if(listing->runs, [&](const ListedRun& run) {
    const bool is_wanted = flags.all || (run.entry.status == "finished" && !run.entry.smoke);
    if (!is_wanted || run.values[at].empty()) return true;
    const auto* number = std::get_if<double>(&run.values[at].front());
    return !number || *number != *number;
  });
  if (listing->runs.empty()) {
    return report(console, {{ErrorCode::kNoResults,
                             {},
                             "",
                             (flags.all ? "no run has '" : "no finished run has '") + key.name + "'",
                             flags.all ? "`retort runs ls` lists the runs and their results"
                                       : "--all includes unfinished runs; `retort runs ls` lists them"}});
  }
  listing->keys[at].is_metric = true;  // the largest is best also of a recipe's number
  sort_runs(*listing, at, false);
  const ListedRun& best = listing->runs.front();
  if (console.json) {
    print_result(console, "runs_best/1",
                 {{"run", best.folder},
                  {"metric", key.name},
                  {"value", values_json(best.values[at])},
                  {"of", listing->runs.size()}});
    return ExitCode::kDone;
  }
  if (!console.is_quiet()) {
    console.err << key.name << ' ' << shown_number(std::get<double>(best.values[at].front())) << ", the best of "
                << listing->runs.size() << (listing->runs.size() == 1 ? " run\n" : " runs\n");
  }
  console.out << best.folder << '\n';
  return ExitCode::kDone;
}

}  // namespace runner
