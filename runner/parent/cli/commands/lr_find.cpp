#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/chosen_pixels.h"
#include "runner/parent/cli/command.h"
#include "runner/parent/cli/fewest_ranks.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/observed_run.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/scratch_folder.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/report/range_test_text.h"
#include "runner/parent/run/plan_request.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/text/finite_number.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

struct LrFindFlags {
  NamedRecipe recipe;
  std::string first = "1e-7", last = "10";
  std::int64_t steps = 100;
  std::int64_t ranks = 0;
  std::string out;
  LogFlags log;
};

/// A test to run, in the form in which it is sent to the worker.
struct RangeOfRates {
  double first = 0, last = 0;
  std::int64_t steps = 0;
};

Diagnostic usage(std::string message, std::string help) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

std::optional<double> positive_number(const std::string& text) {
  const auto number = finite_number(text);
  return number && *number > 0 && *number <= 1e6 ? number : std::nullopt;
}

Result<RangeOfRates> range_of(const LrFindFlags& flags) {
  Diagnostics errors;
  const auto read = [&](const char* flag, const std::string& text) {
    const auto number = positive_number(text);
    if (!number)
      errors.push_back(usage(std::string(flag) + " is '" + text + "', not a learning rate",
                             "give a number above 0 and at most 1000000, such as 1e-5"));
    return number.value_or(0);
  };
  const RangeOfRates range{read("--min", flags.first), read("--max", flags.last), flags.steps};
  if (errors.empty() && range.first >= range.last)
    errors.push_back(
        usage("--min " + flags.first + " is not below --max " + flags.last, "raise --max"));
  if (!errors.empty()) return errors;
  return range;
}

/// Returns an error unless `graph` has a training node.
Diagnostics check_trains(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (node.kind.starts_with("train.")) return {};
  return {
      {ErrorCode::kNothingCompared,
       {},
       "",
       "no learning rate can be found: the recipe '" + graph.recipe + "' does not train anything",
       "choose a recipe with a training stage"}};
}

ExitCode find_learning_rate(const LrFindFlags& flags, Console& console) {
  const auto range = range_of(flags);
  if (!range) return report(console, range.errors());
  const SchemaSet& schemas = shipped_schemas();
  NamedRecipe named = flags.recipe;
  auto prepared = prepare_with_pixels(named, /*launched=*/std::nullopt, flags.log, console);
  if (!prepared) return report(console, prepared.errors());
  if (const Diagnostics errors = check_trains(prepared->graph); !errors.empty())
    return report(console, errors);
  prepared = with_fewest_ranks(
      *std::move(prepared),
      {.recipe = named, .log = flags.log, .reuse = ReuseOptions::Which::kNone}, console);
  if (!prepared) return report(console, prepared.errors());
  auto worker = worker_for(prepared->graph, prepared->recipe.resolved, schemas, flags.log);
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);
  std::optional<AtomicFile> picture;
  if (!flags.out.empty()) picture.emplace(flags.out);  // fails now rather than after the test
  const auto device = take_own_device({.recipe = prepared->recipe.resolved,
                                       .graph = prepared->graph,
                                       .worker = *worker,
                                       .reuse = ReuseOptions::Which::kNone,
                                       .ranks = prepared->graph.ranks},
                                      console);
  if (!device) return report(console, device.errors());

  const ScratchFolder scratch;
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(prepared->recipe.resolved));
  const Json test = {
      {"strict", flags.recipe.strict},
      {"range_test", {{"first", range->first}, {"last", range->last}, {"steps", range->steps}}}};
  auto found = run_observed({prepared->graph, *worker, *device, scratch.path(), test},
                            shown_conversation(display));
  display.clear();
  if (!found) return report(console, placed(found.errors(), prepared->recipe.resolved));
  if (found->at("points").empty())
    return report(console, {{ErrorCode::kLossNotFinite,
                             {},
                             found->at("stage"),
                             "the loss of the first step is not finite",
                             "lower --min, or check the data"}});
  if (picture) {
    picture->append(draw_range_test(*found, prepared->graph.recipe).svg());
    picture->commit();
  }
  const auto suggested = suggested_override(*found);
  (*found)["override"] = suggested ? Json(*suggested) : Json();
  if (console.json) print_result(console, "lr_find/1", *found);
  else console.out << range_test_text(*found, console.style);
  return suggested ? ExitCode::kDone : ExitCode::kRunFailed;
}

Invocation declare_lr_find() {
  const auto flags = std::make_shared<LrFindFlags>();
  Invocation verb;
  verb.is_single = true;
  verb.add_recipe(flags->recipe);
  verb.add({.name = "--min",
            .value = &flags->first,
            .summary = "Learning rate at the first step",
            .type = "RATE",
            .shows_default = true});
  verb.add({.name = "--max",
            .value = &flags->last,
            .summary = "Learning rate at the last step; parameter groups keep their ratios to it",
            .type = "RATE",
            .shows_default = true});
  verb.add({.name = "--steps",
            .value = &flags->steps,
            .summary = "Number of steps; the test ends early if the loss diverges",
            .type = "N",
            .range = {20, 100'000},
            .shows_default = true});
  add_ranks(verb, "--devices", flags->ranks);
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "Plot the loss against the learning rate in this SVG file",
            .type = "FILE",
            .is_written = true});
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) { return find_learning_rate(*flags, console); };
  return verb;
}

}  // namespace

const Command kLrFindCommand = {
    "lr-find",
    "Suggests a learning rate: trains for a few steps from the start with an increasing learning "
    "rate, and finds where the loss falls fastest. No run is recorded.",
    "retort lr-find classify data.root=photos --out rates.svg", declare_lr_find};

}  // namespace runner
