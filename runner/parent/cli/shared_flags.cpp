#include "runner/parent/cli/shared_flags.h"

#include <cstdlib>

#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

std::vector<std::string> known_levels() { return {kLogLevels.begin(), kLogLevels.end()}; }

}  // namespace

Result<LogLevel> LogFlags::chosen() const {
  const char* const variable = std::getenv("RETORT_LOG");
  const std::string word = !level.empty() ? level : variable ? variable : "";
  if (word.empty()) return LogLevel::kInfo;
  if (const auto named = log_level_named(word)) return *named;
  const std::string near = did_you_mean(word, known_levels());
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "RETORT_LOG is '" + word + "', which is not a log level",
                    (near.empty() ? "" : near + " ") + "the levels are " + join(known_levels(), ", ")};
}

Result<WorkerCommand> LogFlags::worker() const {
  const auto level = chosen();
  if (!level) return level.errors();
  auto program = find_worker(own_executable());
  if (!program) return program.errors();
  return WorkerCommand{.program = *std::move(program), .log = *level, .grace = std::chrono::seconds(grace_seconds)};
}

void add_log_level(Invocation& verb, LogFlags& flags, LogPlace place) {
  const char* const what = place == LogPlace::kFile ? "Write lines of this level and above to log.txt"
                                                    : "Show the worker's log lines of this level and above";
  verb.add({.name = "--log-level",
            .value = &flags.level,
            .summary = std::string(what) + "; default: the variable RETORT_LOG, or info",
            .type = "LEVEL",
            .choices = known_levels()});
}

void add_grace(Invocation& verb, LogFlags& flags) {
  verb.add({.name = "--grace",
            .value = &flags.grace_seconds,
            .summary = "Seconds that a worker which is asked to stop may take to save before it is killed; 0: any",
            .type = "SECONDS",
            .range = {0, 1000000},
            .shows_default = true});
}

ReuseOptions::Which ReuseFlags::which() const {
  using Which = ReuseOptions::Which;
  return none ? Which::kNone : all ? Which::kAll : Which::kCacheable;
}

void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary) {
  if (!all_summary.empty()) verb.add({.name = "--reuse", .value = &flags.all, .summary = all_summary});
  verb.add({.name = "--no-reuse",
            .value = &flags.none,
            .summary = "Compute everything, even the features that an earlier run computed",
            .excludes = all_summary.empty() ? "" : "--reuse"});
}

}  // namespace runner
