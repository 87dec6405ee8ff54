#include "runner/cli/sweep.h"

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/config/override_text.h"
#include "runner/cli/prepare.h"

namespace runner {
namespace {

constexpr std::size_t kShownDigits = 10;  // of a hash

/// A line each: its number, the beginning of its hash, what it sets.
void print_jobs(const std::vector<Job>& jobs, std::ostream& out) {
  const std::size_t width = std::to_string(jobs.size() - 1).size();
  for (const Job& job : jobs) {
    const std::string number = std::to_string(job.number);
    out << std::string(width - number.size(), ' ') << number << "  " << job.hash.substr(0, kShownDigits);
    const char* gap = "  ";
    for (const Override& override : job.overrides) out << std::exchange(gap, " ") << override_text(override);
    out << '\n';
  }
}

nlohmann::ordered_json jobs_json(const std::vector<Job>& jobs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Job& job : jobs) {
    nlohmann::ordered_json overrides = nlohmann::ordered_json::array();
    for (const Override& override : job.overrides) overrides.push_back(override_text(override));
    json.push_back({{"number", job.number}, {"hash", job.hash}, {"overrides", std::move(overrides)}});
  }
  return json;
}

}  // namespace

ExitCode sweep_command(const Arguments& arguments, Console& console) {
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  const auto sweep = prepare_sweep(arguments, schemas, sources);
  if (!sweep) return report(console, sweep.errors());
  warn(console, sweep->warnings);
  if (!arguments.dry_run) {
    return report(console, {{ErrorCode::kNotBuiltYet,
                             {},
                             "",
                             "running a sweep is not part of this version",
                             "--dry-run lists its " + std::to_string(sweep->jobs.size()) + " runs"}});
  }
  if (console.json) console.out << jobs_json(sweep->jobs).dump(2) << '\n';
  else print_jobs(sweep->jobs, console.out);
  return ExitCode::kDone;
}

}  // namespace runner
