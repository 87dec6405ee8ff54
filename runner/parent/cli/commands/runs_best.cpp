#include <algorithm>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"
#include "runner/parent/report/main_metric.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

/// How runs are ranked: by which metric, and which runs take part.
struct Contest {
  std::string metric;
  std::string kind = {};    ///< the kind of the training stage; empty: any
  std::size_t others = 0;   ///< number of runs that are not compared
  bool is_of_test = false;  ///< compared on test data because there is no validation data
};

/// True if the run may be chosen as the best. Evaluations may not, since they have no weights;
/// unfinished runs take part only on request.
bool may_win(const ListedRun& run, const RunsFlags& flags) {
  return run.entry.source.empty() &&
         (flags.all || (run.entry.status == "finished" && !run.entry.smoke));
}

/// Returns the metric monitored by most runs with the same kind of training. The kind matters
/// because accuracy over episodes cannot be compared with accuracy over classes. If no run monitors
/// a metric, returns the main metric shared by most runs; nullopt if no run has any metrics.
std::optional<Contest> contest_among(const std::vector<ListedRun>& runs) {
  std::map<std::pair<std::string, std::string>, std::size_t> monitored;
  std::map<std::string, std::size_t> headlines;
  std::size_t count = 0;  // runs with metrics
  for (const ListedRun& run : runs) {
    const RunEntry& entry = run.entry;
    if (entry.headline.empty()) continue;
    ++count;
    ++headlines[entry.headline];
    if (!entry.monitor.empty()) ++monitored[{entry.monitor, entry.trained_by}];
  }
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  if (!monitored.empty()) {
    const auto most = std::ranges::max_element(monitored, fewer);
    return Contest{
        .metric = most->first.first, .kind = most->first.second, .others = count - most->second};
  }
  if (headlines.empty()) return std::nullopt;
  const std::string& metric = std::ranges::max_element(headlines, fewer)->first;
  return Contest{.metric = metric, .is_of_test = is_of_test(metric)};
}

std::string words_of(const Contest& contest) {
  if (contest.is_of_test)
    return "no run here has been validated, so the choice is based on test data: " +
           contest.metric + " is no longer a fair estimate of how good the best run is\n";
  if (is_of_test(contest.metric))
    return contest.metric +
           " is measured on test data: no longer a fair estimate of how good the best run is\n";
  if (contest.others == 0) return "";
  return std::to_string(contest.others) +
         (contest.others == 1 ? " other run is" : " other runs are") +
         " not compared: they were trained differently or monitor a different metric; --metric "
         "NAME compares all that have it\n";
}

Diagnostic no_winner(const RunsFlags& flags, const std::string& metric) {
  const std::string has =
      metric.empty() ? " has recorded a metric" : " has '" + metric + "' and weights";
  return {ErrorCode::kNoResults,
          {},
          "",
          (flags.all ? "no run" : "no finished run") + has,
          flags.all ? "`retort runs ls` lists the runs and their results"
                    : "--all includes unfinished runs; `retort runs ls` lists them, and "
                      "evaluations, which have no weights"};
}

}  // namespace

/// Prints only the folder to standard output, to support `retort predict $(retort runs best)
/// cat.jpg`.
ExitCode show_best_run(const RunsFlags& flags, Console& console) {
  auto request = listing_request(flags, console);
  if (!request) return report(console, request.errors());
  Diagnostics warnings;
  Contest contest{.metric = flags.metric};
  if (flags.metric.empty()) {
    auto all = list_runs(*request, run_index_folder(), warnings);
    if (!all) return report(console, all.errors());
    std::erase_if(all->runs, [&](const ListedRun& run) { return !may_win(run, flags); });
    const auto found = contest_among(all->runs);
    if (!found) {
      warn(console, warnings);
      return report(console, {no_winner(flags, "")});
    }
    contest = *found;
  }
  request->keys.push_back(contest.metric);
  Diagnostics repeated;
  auto listing =
      list_runs(*request, run_index_folder(), flags.metric.empty() ? repeated : warnings);
  if (!listing) return report(console, listing.errors());
  warn(console, warnings);
  const std::size_t at = listing->keys.size() - 1;
  listing->keys[at].is_metric = true;  // sorts the largest first, even if the key is a number from
                                       // the recipe
  contest.metric = listing->keys[at].name;
  std::erase_if(listing->runs, [&](const ListedRun& run) {
    if (!may_win(run, flags) || run.values[at].empty()) return true;
    if (!contest.kind.empty() &&
        (run.entry.trained_by != contest.kind || run.entry.monitor != contest.metric))
      return true;
    const auto* number = std::get_if<double>(&run.values[at].front());
    return !number || *number != *number;
  });
  sort_runs(*listing, at, false);
  const auto best = std::ranges::find_if(
      listing->runs, [](const ListedRun& run) { return has_weights(run.folder); });
  if (best == listing->runs.end()) return report(console, {no_winner(flags, contest.metric)});
  if (console.json) {
    print_result(console, "runs_best/1",
                 {{"run", best->folder},
                  {"metric", contest.metric},
                  {"of_test_data", is_of_test(contest.metric)},
                  {"value", values_json(best->values[at])},
                  {"of", listing->runs.size()}});
    return ExitCode::kDone;
  }
  if (!console.is_quiet()) {
    console.err << words_of(contest) << contest.metric << ' '
                << shown_number(std::get<double>(best->values[at].front())) << ", the best of "
                << listing->runs.size() << (listing->runs.size() == 1 ? " run\n" : " runs\n");
  }
  console.out << printable(best->folder) << '\n';
  return ExitCode::kDone;
}

}  // namespace runner
