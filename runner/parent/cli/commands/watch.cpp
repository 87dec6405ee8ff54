#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/report/run_progress.h"
#include "runner/parent/run/worker_process.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/trial_table.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(1000);

struct WatchFlags {
  std::string folder;
  bool once = false;
};

/// The state of a folder at a given moment.
struct WatchedFolder {
  nlohmann::ordered_json json;
  std::vector<std::string> lines;  ///< one line for a run, or one for each trial
  std::vector<TrialProgress> trials;
  bool is_over = false;
};

WatchedFolder look_at_run(const std::filesystem::path& folder) {
  const RunProgress run = run_progress(folder);
  return {.json = to_json(run),
          .lines = {run_line(run)},
          .trials = {},
          .is_over = !run.status.empty() && run.status != "running"};
}

/// Reads the state of a sweep. If `most` is given, reads only what is needed for a table of that
/// many trials.
Result<WatchedFolder> look_at_sweep(const std::filesystem::path& folder,
                                    std::optional<std::size_t> most) {
  const auto plan = SweepJournal::read(folder);
  if (!plan) return plan.errors();
  WatchedFolder seen{.json = {},
                     .lines = {},
                     .trials = trials_progress(folder, plan->trials, most),
                     .is_over = true};
  for (const TrialProgress& one : seen.trials) {
    if (!most) {
      seen.json.push_back(to_json(one));
      seen.lines.push_back(trial_line(one));
    }
    seen.is_over = seen.is_over && one.is_over();
  }
  return seen;
}

Result<WatchedFolder> look_at(const std::filesystem::path& folder,
                              std::optional<std::size_t> most) {
  std::error_code error;
  if (std::filesystem::exists(SweepLayout(folder).journal(), error))
    return look_at_sweep(folder, most);
  if (std::filesystem::exists(RunLayout(folder).mark(), error)) return look_at_run(folder);
  return Diagnostic{ErrorCode::kNoRun,
                    {},
                    "",
                    "'" + folder.string() + "' contains neither a run nor a sweep",
                    "give the folder that `retort run` or `retort sweep` printed"};
}

/// Returns the state as a line or a table of at most `rows` lines; a table wider than `width`
/// wraps.
std::string picture_of(const WatchedFolder& seen, std::size_t rows,
                       std::size_t width = std::numeric_limits<std::size_t>::max()) {
  if (seen.trials.empty()) return seen.lines.front() + "\n";
  return trials_text(seen.trials, trials_on_terminal(rows), width);
}

ExitCode watch(const WatchFlags& flags, Console& console) {
  const std::filesystem::path folder = flags.folder;
  SignalWait wait;
  LiveText live(console.out);
  std::map<std::size_t, std::string> told;  // the last line printed for each trial
  while (true) {
    const auto terminal = terminal_size(STDOUT_FILENO);
    std::optional<std::size_t> most;
    if (terminal && !flags.once && !console.json) most = trials_on_terminal(terminal->rows);
    const auto seen = look_at(folder, most);
    if (!seen) return report(console, seen.errors());
    if (console.json) {
      const bool is_sweep = !seen->trials.empty();
      print_result(console, "watch/1",
                   {{"folder", folder.string()},
                    {"run", is_sweep ? nlohmann::ordered_json() : seen->json},
                    {"trials", is_sweep ? seen->json : nlohmann::ordered_json()}});
      return ExitCode::kDone;
    }
    if (flags.once) {
      console.out << picture_of(*seen, seen->trials.size() + 4, console.style.table_width());
      return ExitCode::kDone;
    }
    if (terminal) {
      live.draw(picture_of(*seen, terminal->rows), terminal->columns);
    } else {
      for (std::size_t i = 0; i < seen->lines.size(); ++i) {
        if (told[i] == seen->lines[i]) continue;
        told[i] = seen->lines[i];
        console.out << seen->lines[i] << '\n';
      }
      console.out.flush();
    }
    if (seen->is_over) return ExitCode::kDone;
    if (!console.out) return ExitCode::kDone;  // the reader has closed the pipe
    if (const auto signal = wait(kBetweenLooks))
      return exit_code_of_stop(*signal, /*has_saved=*/false);
  }
}

Invocation declare_watch() {
  const auto flags = std::make_shared<WatchFlags>();
  Invocation verb;
  verb.json_summary = "Print the current state as JSON on standard output";
  verb.add({.name = "folder",
            .value = &flags->folder,
            .summary = "The folder of a run or a sweep, even one started in another terminal or on "
                       "another machine",
            .type = "DIR",
            .required = true});
  verb.add(
      {.name = "--once", .value = &flags->once, .summary = "Show the current state once and exit"});
  verb.run = [flags](Console& console) { return watch(*flags, console); };
  return verb;
}

}  // namespace

const Command kWatchCommand = {
    "watch", "Shows the progress of a run or a sweep, from any machine that shares its folder.",
    "retort watch multirun/2026-01-31/12-00-00", declare_watch};

}  // namespace runner
