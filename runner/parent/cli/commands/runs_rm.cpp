#include <unistd.h>

#include <iostream>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"
#include "runner/parent/registry/remove_run.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kNamedRuns = 5;  // maximum number of runs listed in the error if there is no
                                       // terminal to ask on
constexpr int kAbove = 3;  // maximum number of levels from a run up to a folder that has it in its
                           // index

/// Asks the user for confirmation on the terminal.
bool is_confirmed(const std::vector<RemovableRun>& runs, std::uintmax_t bytes, Console& console) {
  for (const RemovableRun& run : runs)
    console.err << "  " << printable(run.folder.string()) << '\n';
  console.err << "remove "
              << (runs.size() == 1 ? "this run" : "these " + std::to_string(runs.size()) + " runs")
              << ", " << size_text(static_cast<std::int64_t>(bytes)) << " permanently? [y/N] "
              << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

/// Removes the runs from the indexes, so that the next `runs ls` does not report them as missing.
void forget_in_indexes(const std::vector<RemovableRun>& runs) {
  std::set<std::filesystem::path> roots;
  for (const RemovableRun& run : runs) {
    std::filesystem::path root =
        std::filesystem::absolute(run.folder / "").lexically_normal().parent_path();
    for (int i = 0; i < kAbove; ++i) roots.insert((root = root.parent_path()) / "");
  }
  for (const std::filesystem::path& root : roots) {
    try {
      Diagnostics ignored;
      RunIndex index(root, run_index_folder(), ignored);
      if (!real_file_system().is_file(index.file()) || !ignored.empty()) continue;
      if (index.refresh().any()) index.save();
    } catch (const std::runtime_error&) {  // `runs ls` reports what is wrong with the index
    }
  }
}

}  // namespace

ExitCode remove_runs(const RunsFlags& flags, Console& console) {
  std::vector<RemovableRun> runs;
  Diagnostics errors;
  std::uintmax_t bytes = 0;
  for (const std::string& folder : flags.words) {
    auto run = removable_run(folder, with_warnings(console));
    if (!run) {
      errors.insert(errors.end(), run.errors().begin(), run.errors().end());
      continue;
    }
    bytes += run->bytes;
    runs.push_back(*std::move(run));
  }
  if (!errors.empty()) return report(console, errors);
  if (!flags.yes) {
    std::vector<std::string> folders;
    for (const RemovableRun& run : runs) folders.push_back(printable(run.folder.string()));
    if (console.json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
      return report(console,
                    {{ErrorCode::kUsage,
                      {},
                      "",
                      "removing " + size_text(static_cast<std::int64_t>(bytes)) +
                          " of runs needs confirmation: " + listed(folders, kNamedRuns, "'"),
                      "pass --yes to confirm without a terminal"}});
    }
    if (!is_confirmed(runs, bytes, console)) {
      console.err << "nothing was removed\n";
      return ExitCode::kDone;
    }
  }
  nlohmann::ordered_json removed = nlohmann::ordered_json::array();
  for (const RemovableRun& run : runs) {
    const auto left = remove_run(run);
    if (!left) {
      errors.insert(errors.end(), left.errors().begin(), left.errors().end());
      continue;
    }
    removed.push_back({{"run", run.folder.string()}, {"bytes", run.bytes}, {"left", *left}});
    if (console.json) continue;
    console.out << printable(run.folder.string()) << '\n';
    if (left->empty() || console.is_quiet()) continue;
    console.err << "kept in '" << printable(run.folder.string()) << "', not written by Retort:";
    for (const std::string& name : *left) console.err << ' ' << printable(name);
    console.err << '\n';
  }
  forget_in_indexes(runs);
  if (!errors.empty()) return report(console, errors);
  if (console.json) print_result(console, "runs_rm/1", {{"removed", std::move(removed)}});
  return ExitCode::kDone;
}

}  // namespace runner
