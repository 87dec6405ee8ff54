#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"
#include "runner/parent/registry/run_details.h"

namespace runner {

ExitCode show_run(const RunsFlags& flags, Console& console) {
  Diagnostics warnings;
  const auto details = read_details(flags.run(), console.sources, warnings);
  if (!details) return report(console, details.errors());
  warn(console, warnings);
  if (console.json) print_result(console, "runs_show/1", to_json(*details));
  else console.out << details_text(*details);
  return ExitCode::kDone;
}

}  // namespace runner
