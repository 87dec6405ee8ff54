#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/commands/runs_rerun.h"
#include "runner/cli/console.h"
#include "runner/cli/prepare.h"
#include "runner/disk/write_error.h"
#include "runner/record/node_state.h"
#include "runner/record/recorded_run.h"
#include "runner/record/run_lock.h"
#include "runner/report/table.h"
#include "runner/stage/family.h"
#include "runner/text/decimal.h"
#include "runner/text/suggest.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

struct RunsFlags {
  std::string action;  ///< "status", "reset", "rerun" or "reproduce"
  std::string run;
  std::string node;  ///< that is reset
  RerunFlags rerun;
  std::string tolerance = "1e-3";  ///< of reproduce
};

/// A recorded run and the nodes that its recipe has.
struct KnownRun {
  RecordedRun run;
  Graph graph;
};

Result<KnownRun> known_run(const std::string& folder, Console& console) {
  const auto run = read_run(folder);
  if (!run) return run.errors();
  const SchemaSet schemas = shipped_schemas();
  const auto prepared = prepare_recorded(run->recipe, {}, schemas, console.sources);
  if (!prepared) return prepared.errors();
  return KnownRun{*run, prepared->graph};
}

/// The text option of a node; empty where it has none.
std::string text_option(const Node& node, std::string_view key) {
  const Value* value = node.options.find(key);
  return value && value->text() ? *value->text() : "";
}

std::optional<std::int64_t> whole_option(const Node& node, std::string_view key) {
  const Value* value = node.options.find(key);
  const auto* number = value ? std::get_if<std::int64_t>(&value->data) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

/// A line of the table: node, state, epochs, best.
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
  const auto known = known_run(flags.run, console);
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
                 {{"folder", known->run.folder.string()}, {"status", known->run.status}, {"nodes", std::move(nodes)}});
  } else {
    console.out << table_text(rows) << problems;
  }
  return ExitCode::kDone;
}

ExitCode reset(const RunsFlags& flags, Console& console) {
  if (flags.node.empty()) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "runs reset needs the node whose results are to go",
                             "name one: --node train.0-1; `retort runs status " + flags.run + "` lists them"}});
  }
  const auto known = known_run(flags.run, console);
  if (!known) return report(console, known.errors());
  const auto& nodes = known->graph.nodes;
  if (std::ranges::find(nodes, flags.node, &Node::id) == nodes.end()) {
    std::vector<std::string> ids;
    for (const Node& node : nodes) ids.push_back(node.id);
    return report(
        console,
        {{ErrorCode::kUsage, {}, "", "the run has no node '" + flags.node + "'", did_you_mean(flags.node, ids)}});
  }
  const auto lock = RunLock::take(known->run.folder);
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
    std::string line = "'" + flags.node + "' is as if it had not run";
    for (const std::string& dependent : after)
      line += (&dependent == after.data() ? "; also again: " : ", ") + dependent;
    console.out << line << "; `retort resume " << flags.run << "` does it\n";
  }
  return ExitCode::kDone;
}

/// A setting that the action cannot honour is a mistake.
Diagnostics misplaced(const RunsFlags& flags) {
  const bool is_run_again = flags.action == "rerun" || flags.action == "reproduce";
  if (is_run_again || (flags.rerun.overrides.empty() && !flags.rerun.force)) return {};
  const std::string what = flags.rerun.force ? "--force" : "'" + flags.rerun.overrides.front() + "'";
  return {{ErrorCode::kUsage,
           {},
           "",
           "`retort runs " + flags.action + "` does not take " + what,
           "overrides and --force are for `retort runs rerun` and `retort runs reproduce`"}};
}

ExitCode run_again(const RunsFlags& flags, Console& console) {
  RerunFlags rerun = flags.rerun;
  rerun.run = flags.run;
  if (flags.action == "rerun") return rerun_run(rerun, console);
  return reproduce_run(std::move(rerun), flags.tolerance, console);
}

Invocation declare_runs() {
  const auto flags = std::make_shared<RunsFlags>();
  Invocation verb;
  verb.add({.name = "action",
            .value = &flags->action,
            .summary = "status: how far the trainings and evaluations of a run are; reset: removes one node's results; "
                       "rerun: a new run from its record; reproduce: the same, and says whether it came out the same",
            .choices = {"status", "reset", "rerun", "reproduce"},
            .required = true});
  verb.action = &flags->action;
  verb.add({.name = "run", .value = &flags->run, .summary = "The run's folder", .required = true});
  verb.add({.name = "--node", .value = &flags->node, .summary = "reset: the node, such as train.0-1", .type = "NODE"});
  add_rerun(verb, flags->rerun);
  verb.add({.name = "--tolerance",
            .value = &flags->tolerance,
            .summary = "reproduce: the relative difference up to which metrics count as near",
            .type = "X",
            .shows_default = true});
  verb.run = [flags](Console& console) {
    if (const Diagnostics errors = misplaced(*flags); !errors.empty()) return report(console, errors);
    if (flags->action == "rerun" || flags->action == "reproduce") return run_again(*flags, console);
    return flags->action == "reset" ? reset(*flags, console) : show_status(*flags, console);
  };
  return verb;
}

}  // namespace

const Command kRunsCommand = {"runs",
                              "Shows how far the trainings of a run are, has one done again, or repeats the run.",
                              "retort runs status outputs/2026-01-31/12-00-00", declare_runs};

}  // namespace runner
