#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runner/cli/commands/sweep.h"
#include "runner/cli/prepare.h"
#include "runner/config/override_text.h"
#include "runner/config/secret.h"
#include "runner/sweep/ask_tell.h"
#include "runner/value/json_number.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// The one job of a recipe with overrides: what a sampler chooses is not listed besides.
Result<PreparedSweep> prepare_one(const NamedRecipe& named, const SchemaSet& schemas, Sources& sources,
                                  std::int64_t slots) {
  auto prepared = prepare_sweep(named, schemas, sources, slots);
  if (!prepared || prepared->jobs.size() == 1) return prepared;
  return Diagnostic{ErrorCode::kBadSweep,
                    {},
                    "",
                    "a key has several values, and which of them a trial has is for the sampler to say",
                    "give one value to each key on the command line, and ~sweep.params where the recipe has some"};
}

/// The overrides of settings, {"train.epochs": 5, "model": "lora"}.
std::vector<std::string> overrides_of(const Json& settings) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : settings.items()) overrides.push_back(key + "=" + element_text(from_json(value)));
  return overrides;
}

/// What a sampler is told of a trial that has ended.
Json measured(const SweepJournal& journal, const Trial& trial, const std::string& metric) {
  SweepPlan plan;
  plan.trials = {trial};
  plan.asha = journal.plan().asha;
  const SweepResults results = read_results(journal.folder(), plan, metric);
  Json metrics = Json::object();
  for (const auto& [name, value] : results.trials.front().metrics) metrics[name] = number_json(value);
  const Json value = results.objective && metrics.contains(results.objective->metric)
                         ? metrics[results.objective->metric]
                         : Json(nullptr);
  return {{"value", value}, {"metrics", std::move(metrics)}};
}

}  // namespace

ExitCode ask_and_tell(SweepFlags flags, Console& console) {
  Sources& sources = console.sources;
  std::vector<std::string>& words = flags.recipe.overrides;
  if (words.empty()) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "`retort sweep ask-tell` needs a recipe",
                             "write `retort sweep ask-tell classify data.root=photos`"}});
  }
  flags.recipe.name = words.front();
  words.erase(words.begin());
  const SchemaSet schemas = shipped_schemas();
  const auto base = prepare_one(flags.recipe, schemas, sources, flags.slots);
  if (!base) return report(console, base.errors());
  if (!flags.launcher.empty() || !base->launcher.is_null()) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "`retort sweep ask-tell` runs its trials on this machine, so it takes no launcher",
                             "leave out --launcher and sweep.launcher"}});
  }
  warn(console, base->warnings);
  const auto folder = make_sweep_folder(base->dir);
  if (!folder) return report(console, folder.errors());
  const SweepLayout layout(*folder);
  try {
    SweepPlan plan{.recipe = flags.recipe.name,
                   .overrides = {},
                   .folder = std::filesystem::current_path(),
                   .trials = {},
                   .asha = base->asha};
    for (const std::string& typed : words) plan.overrides.push_back(without_secrets(typed));
    SweepJournal journal = SweepJournal::make(*folder, std::move(plan));

    const auto add = [&](const Json& settings) -> Result<std::uint64_t> {
      NamedRecipe named = flags.recipe;
      std::vector<std::string> overrides = overrides_of(settings);
      named.overrides.insert(named.overrides.end(), overrides.begin(), overrides.end());
      auto prepared = prepare_one(named, schemas, sources, flags.slots);
      if (!prepared) return prepared.errors();
      Job& job = prepared->jobs.front();
      job.number = journal.trials().size();
      if (const Diagnostics errors = write_recipe(job, layout, sources); !errors.empty()) return errors;
      std::vector<std::string> texts;
      for (const std::string& override : overrides) texts.push_back(without_secrets(override));
      return journal.add(job.hash, std::move(texts));
    };
    AskTell sampler(STDIN_FILENO, console.out, add,
                    [&](const Trial& trial) { return measured(journal, trial, flags.metric); });
    sampler.say({{"ask_tell", 1}, {"folder", folder->string()}, {"slots", flags.slots}});
    const ExitCode code = run_trials(journal, trial_options(flags), trial_surroundings(flags, console), &sampler);
    sampler.say({{"results", write_results(journal, read_results(*folder, journal.plan(), flags.metric))}});
    return code;
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
}

}  // namespace runner
