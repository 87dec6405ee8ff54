#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"
#include "runner/parent/registry/run_difference.h"

namespace runner {

ExitCode show_run_difference(const RunsFlags& flags, Console& console) {
  Diagnostics warnings, errors;
  const auto before = read_details(flags.words[0], console.sources, warnings);
  const auto after = read_details(flags.words[1], console.sources, warnings);
  for (const auto* run : {&before, &after})
    if (!*run) errors.insert(errors.end(), run->errors().begin(), run->errors().end());
  if (!errors.empty()) return report(console, errors);
  warn(console, warnings);
  const RunDifference difference = difference_of(*before, *after);
  if (console.json) print_result(console, "runs_diff/1", to_json(difference));
  else console.out << difference_text(difference);
  return ExitCode::kDone;
}

}  // namespace runner
