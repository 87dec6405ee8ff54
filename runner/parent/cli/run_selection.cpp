#include "runner/parent/cli/run_selection.h"

#include <algorithm>

namespace runner {

void add_runs(Invocation& verb, RunSelection& selection, const std::string& summary) {
  verb.add({.name = "runs", .value = &selection.folders, .summary = summary, .required = true});
  verb.add({.name = "--all",
            .value = &selection.all,
            .summary = "In a folder of runs, include those that failed, were stopped or are running"});
}

Result<std::vector<RecordedRun>> selected_runs(const RunSelection& selection, Console& console) {
  std::vector<RecordedRun> runs;
  Diagnostics errors;
  std::size_t left_out = 0;
  for (const std::string& folder : selection.folders) {
    std::vector<std::filesystem::path> paths = runs_in(folder);
    const bool is_named = paths.empty() || paths.front() == std::filesystem::path(folder).lexically_normal();
    if (paths.empty()) paths.emplace_back(folder);
    for (const std::filesystem::path& path : paths) {
      if (!is_named && std::ranges::find(runs, path, &RecordedRun::folder) != runs.end()) continue;
      auto run = read_run(path);
      const bool is_wanted = is_named || selection.all || (run && run->status == "finished");
      if (!is_wanted) ++left_out;
      else if (run) runs.push_back(*std::move(run));
      else errors.insert(errors.end(), run.errors().begin(), run.errors().end());
    }
  }
  if (!errors.empty()) return errors;
  if (left_out > 0 && !console.is_quiet())
    console.err << left_out
                << (left_out == 1 ? " unfinished run left out: --all includes it\n"
                                  : " unfinished runs left out: --all includes them\n");
  return runs;
}

}  // namespace runner
