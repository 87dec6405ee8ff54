#include "runner/parent/cli/commands/runs.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/console.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/record/node_state.h"
#include "runner/parent/registry/run_curves.h"
#include "runner/parent/registry/run_details.h"
#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/table_text.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// A recorded run and the nodes of its recipe.
struct KnownRun {
  RecordedRun run;
  Graph graph;
};

Result<KnownRun> known_run(const std::string& folder, Console& console) {
  const auto run = read_run(folder);
  if (!run) return run.errors();
  const SchemaSet& schemas = shipped_schemas();
  const auto prepared = prepare_recorded(run->recipe, {}, schemas, console.sources);
  if (!prepared) return prepared.errors();
  return KnownRun{*run, prepared->graph};
}

/// Returns a string option of a node; empty if it has none.
std::string text_option(const Node& node, std::string_view key) {
  const Value* value = node.options.find(key);
  return value && value->text() ? *value->text() : "";
}

std::optional<std::int64_t> whole_option(const Node& node, std::string_view key) {
  const Value* value = node.options.find(key);
  const auto* number = value ? std::get_if<std::int64_t>(&value->data) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

/// Returns a row of the table: node, state, epochs, best.
std::vector<std::string> line_of(const Node& node, const NodeState& state) {
  std::string epochs, best;
  if (state.epoch) {
    epochs = std::to_string(*state.epoch);
    if (const auto all = whole_option(node, "epochs")) epochs += "/" + std::to_string(*all);
  }
  if (state.best) {
    best = text_option(node, "monitor") + " " + decimal(*state.best, 4);
    if (state.best_epoch) best += " in epoch " + std::to_string(*state.best_epoch);
  }
  return {node.id, std::string(name(state.progress)), epochs, best};
}

Json json_of(const Node& node, const NodeState& state) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"node", node.id},
          {"state", name(state.progress)},
          {"epoch", or_null(state.epoch)},
          {"epochs", or_null(whole_option(node, "epochs"))},
          {"best", or_null(state.best)},
          {"best_epoch", or_null(state.best_epoch)},
          {"missing", state.missing.empty() ? Json(nullptr) : Json(state.missing)}};
}

ExitCode show_status(const RunsFlags& flags, Console& console) {
  const auto known = known_run(flags.run(), console);
  if (!known) return report(console, known.errors());
  std::vector<std::vector<std::string>> rows = {{"node", "state", "epochs", "best"}};
  Json nodes = Json::array();
  std::string problems;
  for (const Node& node : known->graph.nodes) {
    const auto family = family_of(node.kind);
    if (family != Family::kTrain && family != Family::kEvaluate) continue;
    const NodeState state = node_state(known->run.folder, node.id);
    rows.push_back(line_of(node, state));
    nodes.push_back(json_of(node, state));
    if (!state.missing.empty()) problems += node.id + ": " + state.missing + "\n";
  }
  if (console.json) {
    print_result(console, "runs/1",
                 {{"folder", known->run.folder.string()},
                  {"status", known->run.status},
                  {"nodes", std::move(nodes)}});
  } else {
    console.out << table_text(rows, console.style.table_width()) << problems;
  }
  return ExitCode::kDone;
}

ExitCode reset(const RunsFlags& flags, Console& console) {
  if (flags.node.empty()) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "`retort runs reset` needs the node to reset",
                             "choose one: --node train.0-1; `retort runs status " + flags.run() +
                                 "` lists them"}});
  }
  const auto known = known_run(flags.run(), console);
  if (!known) return report(console, known.errors());
  const auto& nodes = known->graph.nodes;
  if (std::ranges::find(nodes, flags.node, &Node::id) == nodes.end()) {
    std::vector<std::string> ids;
    for (const Node& node : nodes) ids.push_back(node.id);
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "the run has no node '" + flags.node + "'",
                             did_you_mean(flags.node, ids)}});
  }
  const auto lock = RunLock::take(known->run.folder, with_warnings(console));
  if (!lock) return report(console, lock.errors());
  try {
    reset_node(known->run.folder, known->graph, flags.node);
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  const std::vector<std::string> after = nodes_after(known->graph, flags.node);
  if (console.json) {
    print_result(console, "runs_reset/1",
                 {{"folder", known->run.folder.string()}, {"node", flags.node}, {"again", after}});
  } else if (!console.is_quiet()) {
    std::string line = "'" + flags.node + "' has been reset";
    for (const std::string& dependent : after)
      line += (&dependent == after.data() ? "; these must run again too: " : ", ") + dependent;
    console.out << line << "; `retort resume " << printable(flags.run())
                << "` runs whatever is missing\n";
  }
  return ExitCode::kDone;
}

ExitCode rerun(const RunsFlags& flags, Console& console) {
  return rerun_run(flags.as_rerun(), console);
}

ExitCode reproduce(const RunsFlags& flags, Console& console) {
  return reproduce_run(flags.as_rerun(), flags.tolerance.empty() ? "1e-3" : flags.tolerance,
                       console);
}

/// The actions of `retort runs ACTION`, as a table.
struct RunsAction {
  std::string_view name;
  std::size_t least, most;  ///< number of words that the action takes
  std::string_view words;   ///< description of these words for messages
  ExitCode (*run)(const RunsFlags&, Console&);
};

constexpr std::size_t kAny = SIZE_MAX;
constexpr RunsAction kActions[] = {
    {"ls", 0, kAny, "folders of runs, and a filter", list_recorded_runs},
    {"show", 1, 1, "the folder of a run", show_run},
    {"diff", 2, 2, "the folders of two runs", show_run_difference},
    {"best", 0, kAny, "folders of runs, and a filter", show_best_run},
    {"tag", 1, kAny, "the folder of a run, and tags", tag_run},
    {"rm", 1, kAny, "the folders of runs", remove_runs},
    {"status", 1, 1, "the folder of a run", show_status},
    {"reset", 1, 1, "the folder of a run", reset},
    {"rerun", 1, kAny, "the folder of a run, and overrides", rerun},
    {"reproduce", 1, kAny, "the folder of a run, and overrides", reproduce},
    {"reindex", 0, kAny, "folders of runs", reindex_runs},
};

/// An option of `retort runs`, and the actions that accept it.
struct RunsOption {
  std::string_view name;
  bool is_given;
  std::vector<std::string_view> actions;
};

/// Returns errors for options that the action does not accept.
Diagnostics misplaced(const RunsFlags& flags) {
  const RunsOption options[] = {
      {"--node", !flags.node.empty(), {"reset"}},
      {"--sort", !flags.sort.empty(), {"ls"}},
      {"--reverse", flags.is_reversed, {"ls"}},
      {"--metric", !flags.metric.empty(), {"best"}},
      {"--all", flags.all, {"best"}},
      {"--remove", flags.removes, {"tag"}},
      {"--yes", flags.yes, {"rm"}},
      {"--force", flags.rerun.force, {"rerun", "reproduce"}},
      {"--strict", flags.rerun.strict, {"rerun", "reproduce"}},
      {"--log-level", !flags.rerun.log.level.empty(), {"rerun", "reproduce"}},
      {"--tolerance", !flags.tolerance.empty(), {"reproduce"}},
  };
  Diagnostics found;
  for (const RunsOption& option : options) {
    if (!option.is_given || std::ranges::find(option.actions, flags.action) != option.actions.end())
      continue;
    found.push_back({ErrorCode::kUsage,
                     {},
                     "",
                     "`retort runs " + flags.action + "` does not take " + std::string(option.name),
                     "it is for `retort runs " + std::string(option.actions.front()) + '`'});
  }
  return found;
}

ExitCode runs(const RunsFlags& flags, Console& console) {
  if (const Diagnostics errors = misplaced(flags); !errors.empty()) return report(console, errors);
  const auto& action =
      *std::ranges::find(kActions, std::string_view(flags.action), &RunsAction::name);
  const std::size_t count = flags.words.size();
  if (count >= action.least && count <= action.most) return action.run(flags, console);
  return report(console, {{ErrorCode::kUsage,
                           {},
                           "",
                           "`retort runs " + flags.action + "` takes " + std::string(action.words) +
                               ", not " + std::to_string(count) + (count == 1 ? " word" : " words"),
                           "`retort runs --help` shows how it is used"}});
}

Invocation declare_runs() {
  const auto flags = std::make_shared<RunsFlags>();
  Invocation verb;
  std::vector<std::string> names;
  for (const RunsAction& action : kActions) names.emplace_back(action.name);
  verb.add(
      {.name = "action",
       .value = &flags->action,
       .summary =
           "ls: list runs; show: describe one; diff: show how two differ; best: print the folder "
           "of the best; tag: tag one, or show its tags; rm: remove runs; status: show the "
           "progress of a run's training and evaluation nodes; reset: remove the results of one "
           "node; rerun: start a new run from the record of one; reproduce: rerun, and check that "
           "the result is the same; reindex: rebuild the index that ls and best use",
       .choices = names,
       .required = true});
  verb.action = &flags->action;
  verb.add({.name = "runs",
            .value = &flags->words,
            .summary = "The run's folder. ls, best, reindex: folders of runs (default: "
                       "outputs and multirun); ls, best: also a filter, such as 'accuracy>0.7 & "
                       "model.kind=lora'; tag: the run and its tags; rerun, reproduce: the run, "
                       "and key=value for options to change (run.dir=DIR is the new folder)"});
  verb.add({.name = "--node",
            .value = &flags->node,
            .summary = "reset: the node, such as train.0-1",
            .type = "NODE"});
  verb.add({.name = "--sort",
            .value = &flags->sort,
            .summary = "ls: sort by this metric, best first, or by another key, such as started or "
                       "train.epochs",
            .type = "RUNKEY"});
  verb.add({.name = "--reverse", .value = &flags->is_reversed, .summary = "ls: reverse the order"});
  verb.add({.name = "--metric",
            .value = &flags->metric,
            .summary = "best: compare by this metric; lower is better for a loss, an error or a "
                       "rank. Default: the validation metric that most runs monitor",
            .type = "RUNKEY"});
  verb.add(
      {.name = "--all",
       .value = &flags->all,
       .summary =
           "best: include smoke runs, and runs that failed, were stopped or are still running"});
  verb.add({.name = "--remove", .value = &flags->removes, .summary = "tag: remove these tags"});
  verb.add({.name = "--yes", .value = &flags->yes, .summary = "rm: do not ask for confirmation"});
  add_rerun(verb, flags->rerun);
  verb.add(
      {.name = "--tolerance",
       .value = &flags->tolerance,
       .summary =
           "reproduce: the maximum relative difference in metrics that counts as within tolerance",
       .type = "X",
       .assumed = "1e-3"});
  verb.run = [flags](Console& console) { return runs(*flags, console); };
  return verb;
}

}  // namespace

RerunFlags RunsFlags::as_rerun() const {
  RerunFlags result = rerun;
  result.run = run();
  result.overrides.assign(words.begin() + 1, words.end());
  return result;
}

const Command kRunsCommand = {
    "runs", "Lists, shows, compares, tags, repeats and removes runs, or resets a node of a run.",
    "retort runs ls 'accuracy>0.7 & model.kind=lora' --sort accuracy", declare_runs};

ExitCode rerun_run(const RerunFlags& flags, Console& console) {
  auto run = read_run(flags.run);
  if (!run) return report(console, run.errors());
  return Rerun(flags, *std::move(run))(console);
}

ExitCode show_run(const RunsFlags& flags, Console& console) {
  Diagnostics warnings;
  const auto details = read_details(flags.run(), console.sources, warnings);
  if (!details) return report(console, details.errors());
  warn(console, warnings);
  if (console.json) {
    print_result(console, "runs_show/1", to_json(*details));
    return ExitCode::kDone;
  }
  const std::string curves = curves_text(details->run.folder, console.style);
  console.out << details_text(*details, console.style) << (curves.empty() ? "" : "\n" + curves);
  return ExitCode::kDone;
}

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
  else console.out << difference_text(difference, console.style);
  return ExitCode::kDone;
}

ExitCode tag_run(const RunsFlags& flags, Console& console) {
  const auto run = read_run(flags.run());
  if (!run) return report(console, run.errors());
  const std::vector<std::string> tags(flags.words.begin() + 1, flags.words.end()), none;
  if (flags.removes && tags.empty()) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "--remove needs the tags to remove",
                             "list them after the run"}});
  }
  try {
    const auto after = tags.empty() ? read_tags(run->folder)
                                    : change_tags(run->folder, flags.removes ? none : tags,
                                                  flags.removes ? tags : none);
    if (!after) return report(console, after.errors());
    if (console.json) {
      print_result(console, "runs_tag/1", {{"run", flags.run()}, {"tags", *after}});
      return ExitCode::kDone;
    }
    for (const std::string& tag : *after) console.out << tag << '\n';
    if (after->empty() && !console.is_quiet())
      console.err << "'" << printable(flags.run()) << "' has no tags\n";
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  return ExitCode::kDone;
}

ExitCode reindex_runs(const RunsFlags& flags, Console& console) {
  auto request = listing_request(flags, console);
  if (!request) return report(console, request.errors());
  const std::filesystem::path indexes = run_index_folder();
  if (!request->filter.keys().empty() || indexes.empty()) {
    return report(
        console,
        {{ErrorCode::kUsage,
          {},
          "",
          indexes.empty() ? "there is no folder for the index"
                          : "`retort runs reindex` takes no filter",
          indexes.empty() ? "set RETORT_CACHE to a folder; without one, `runs ls` reads every run"
                          : "leave the filter out: all runs in a folder are indexed"}});
  }
  request->anew = true;
  Diagnostics warnings;
  const auto listing = list_runs(*request, indexes, warnings);
  if (!listing) return report(console, listing.errors());
  warn(console, warnings);
  const auto damaged = std::ranges::count_if(
      listing->runs, [](const ListedRun& run) { return !run.entry.problem.empty(); });
  if (console.json) {
    print_result(console, "runs_reindex/1",
                 {{"runs", listing->all}, {"damaged", damaged}, {"folder", indexes.string()}});
  } else {
    console.out << listing->all << (listing->all == 1 ? " run" : " runs") << " in the index";
    if (damaged > 0) console.out << ", " << damaged << " of them damaged";
    console.out << ": " << printable(indexes.string()) << '\n';
  }
  return ExitCode::kDone;
}

}  // namespace runner
