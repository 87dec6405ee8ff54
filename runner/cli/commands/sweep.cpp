#include "runner/cli/commands/sweep.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "runner/cli/prepare.h"
#include "runner/cli/sweep.h"
#include "runner/config/override_text.h"

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

struct SweepFlags {
  NamedRecipe recipe;
  bool dry_run = false;
};

Invocation declare_sweep() {
  const auto flags = std::make_shared<SweepFlags>();
  Invocation verb;
  verb.add_recipe(flags->recipe);
  verb.add({.name = "--dry-run", .value = &flags->dry_run, .summary = "List the runs without starting them"});
  verb.run = [flags](Console& console) { return list_sweep(flags->recipe, flags->dry_run, console); };
  return verb;
}

}  // namespace

ExitCode list_sweep(const NamedRecipe& named, bool dry_run, Console& console) {
  Sources& sources = console.sources;
  const SchemaSet schemas = shipped_schemas();
  const auto sweep = prepare_sweep(named, schemas, sources);
  if (!sweep) return report(console, sweep.errors());
  warn(console, sweep->warnings);
  if (!dry_run) {
    return report(console, {{ErrorCode::kNotBuiltYet,
                             {},
                             "",
                             "this version cannot run a sweep yet",
                             "--dry-run lists its " + std::to_string(sweep->jobs.size()) + " runs"}});
  }
  if (console.json) print_result(console, "sweep/1", {{"runs", jobs_json(sweep->jobs)}});
  else print_jobs(sweep->jobs, console.out);
  return ExitCode::kDone;
}

const Command kSweepCommand = {"sweep", "Lists the runs of a recipe for every combination of some values.",
                               "retort sweep classify data.root=photos train.epochs=5,10 seed=range(0,3) --dry-run",
                               declare_sweep};

}  // namespace runner
