#include "runner/parent/cli/commands/sweep.h"

#include "runner/parent/cli/program.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"
#include "runner/parent/record/run_folder.h"

namespace runner {

Diagnostics errors_among(const Diagnostics& found) {
  Diagnostics errors;
  for (const Diagnostic& one : found)
    if (one.severity == Severity::kError) errors.push_back(one);
  return errors;
}

Result<SweepJournal> reopen_sweep(const std::filesystem::path& folder, Console& console) {
  if (const auto plan = SweepJournal::read(folder); !plan) return plan.errors();
  std::error_code error;
  const auto whole = std::filesystem::absolute(folder, error);
  auto journal = SweepJournal::reopen(whole.lexically_normal(), disk(), with_warnings(console));
  if (!journal) return journal;
  std::filesystem::current_path(journal->plan().folder,
                                error);  // base of the recipes' relative paths
  if (error) {
    return Diagnostic{
        ErrorCode::kMissingFolder,
        {},
        "",
        "the sweep was started in '" + journal->plan().folder.string() +
            "', against which its relative paths are resolved, but that folder does not exist",
        "restore that folder"};
  }
  return journal;
}

TrialOptions trial_options(const SweepFlags& flags) {
  TrialOptions options{.slots = flags.slots.slots,
                       .retries = flags.retries,
                       .time_out = {},
                       .fail_fast = flags.fail_fast};
  if (flags.time_out_minutes > 0) options.time_out = std::chrono::minutes(flags.time_out_minutes);
  return options;
}

TrialSurroundings trial_surroundings(const SweepFlags& flags, Console& console) {
  TrialSurroundings surroundings{
      .program = own_executable(), .err = console.err, .verbosity = console.verbosity};
  surroundings.body = run_program;
  if (!flags.log.level.empty()) surroundings.arguments = {"--log-level", flags.log.level};
  if (flags.log.grace_seconds != LogFlags().grace_seconds)
    surroundings.arguments.insert(surroundings.arguments.end(),
                                  {"--grace", std::to_string(flags.log.grace_seconds)});
  if (flags.recipe.strict) surroundings.arguments.emplace_back("--strict");
  if (flags.reuse.none) surroundings.arguments.emplace_back("--no-reuse");
  if (flags.reuse.all) surroundings.run_arguments = {"--reuse"};
  if (flags.force) surroundings.resume_arguments = {"--force"};
  return surroundings;
}

Result<std::filesystem::path> make_sweep_folder(const std::string& given) {
  return create_dated_folder({.given = given,
                              .base = std::filesystem::current_path(),
                              .below = "multirun",
                              .option = "sweep.dir",
                              .mark = SweepLayout("").recipes(),
                              .what = "a sweep"},
                             std::chrono::system_clock::now());
}

Diagnostics write_recipe(const PreparedTrial& job, const SweepLayout& layout, Sources& sources) {
  const std::string text = write_yaml(job.recipe);
  if (text.find("***") != text.npos) {
    const auto read = read_yaml(sources.add(layout.recipe(job.number).string(), text));
    if (read && !lost_secrets(*read, "").empty()) {
      return {{ErrorCode::kBadSweep,
               {},
               "",
               "a trial needs a secret, which is never written to the sweep's folder",
               "pass it in an environment variable, as in vars.token=${oc.env:TOKEN}"}};
    }
  }
  NewFile(layout.recipe(job.number))
      .append("# The resolved recipe of trial " + std::to_string(job.number) + ".\n" + text);
  return {};
}

}  // namespace runner
