#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/chosen_pixels.h"
#include "runner/parent/cli/command.h"
#include "runner/parent/cli/fewest_ranks.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/reserved_keys.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/devices/choose_device.h"
#include "runner/parent/report/plan_text.h"
#include "runner/parent/report/table_text.h"
#include "runner/parent/run/image_folders.h"
#include "runner/parent/run/plan_request.h"
#include "runner/parent/run/precision_hint.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// The flags of `plan`; `certify` has only some of them.
struct PlanFlags {
  NamedRecipe recipe;
  std::string budget;              ///< a size to check the recipe against, "8GiB"
  std::string gpu;                 ///< a GPU that this machine does not have, "NVIDIA L4"
  std::string only;                ///< plan only this node and the nodes that it needs; empty: all
  std::string svg;                 ///< the file for the drawing of live bytes
  bool detailed_exitcode = false;  ///< exit with 2 if something would run
  std::int64_t ranks = 0;
  ReuseFlags reuse;
  LogFlags log;
};

struct PlannedRecipe {
  PreparedRecipe prepared;
  PlanAnswer answer;
  Diagnostics errors;  ///< errors in the answer, such as a plan that does not fit, in source order
};

/// Returns a warning if the GPU that the plan is for cannot be used for runs.
Diagnostics too_old(const PlanRequest& request) {
  const auto model = device_model(request.device_model);
  if (request.device_model.empty() || !model || (*model)->capability >= kOldestCapability)
    return {};
  return {{ErrorCode::kDeviceUnavailable,
           {},
           "",
           "this build of LibTorch does not support " + std::string((*model)->name) + " (" +
               std::string((*model)->architecture) + "): Turing is the oldest it supports",
           "the plan shows how much memory a run would need on such a GPU",
           {},
           Severity::kWarning}};
}

Result<PlannedRecipe> ask(const PlanFlags& flags, Console& console, Sources& sources,
                          bool certify) {
  const SchemaSet& schemas = shipped_schemas();
  NamedRecipe named = flags.recipe;
  auto prepared = prepare_with_pixels(named, /*launched=*/std::nullopt, flags.log, console);
  if (!prepared) return prepared.errors();
  if (const auto errors = sweep_keys_of_single_run(prepared->composition); !errors.empty())
    return errors;
  prepared = with_fewest_ranks(*std::move(prepared),
                               {.recipe = named,
                                .log = flags.log,
                                .reuse = flags.reuse.which(),
                                .only = flags.only,
                                .budget = flags.budget,
                                .gpu = flags.gpu},
                               console);
  if (!prepared) return prepared.errors();
  if (!flags.only.empty()) {
    auto part = only(prepared->graph, flags.only);
    if (!part) return part.errors();
    prepared->graph = *std::move(part);
  }
  PlanRequest request{.graph = prepared->graph,
                      .budget = std::nullopt,
                      .device_model = "",
                      .alternatives = !certify,
                      .certify = certify,
                      .strict = flags.recipe.strict,
                      .reuse = flags.reuse.which(),
                      .node_index = node_index_folder()};
  if (Diagnostics errors = hold_against(request, flags.budget, flags.gpu); !errors.empty())
    return errors;
  auto worker = worker_for(request.graph, prepared->recipe.resolved, schemas, flags.log);
  if (!worker) return worker.errors();
  warn(console, prepared->composition.warnings);
  warn(console, too_old(request));
  std::string hint;
  if (request.device_model.empty()) {
    const DeviceUse use{
        .recipe = prepared->recipe.resolved, .graph = request.graph, .worker = *worker};
    const auto likely = use_likely_device(use, console);
    if (!likely) return likely.errors();
    if (likely->device)
      hint = precision_hint(request.graph, likely->device->name, likely->device->capability);
  } else if (const auto model = device_model(request.device_model)) {
    hint = precision_hint(request.graph, (*model)->name, (*model)->capability);
  }
  if (!hint.empty() && !certify && !console.is_quiet()) console.err << hint << '\n';
  const SecretTexts secrets(prepared->recipe.resolved);
  ProgressDisplay display(console.err, standard_error_display(console.verbosity), secrets);
  auto answer = ask_for_plan(*worker, request, display);
  if (!answer) return placed(answer.errors(), prepared->recipe.resolved);
  for (NodeReuse& node : answer->reuse) node.why = secrets.hidden_in(std::move(node.why));
  secrets.hide_in(answer->json);
  Diagnostics errors, warnings;
  for (const Diagnostic& one : placed(answer->diagnostics, prepared->recipe.resolved))
    (one.severity == Severity::kError ? errors : warnings).push_back(one);
  warn(console, warnings);
  sort_by_place(errors, sources);
  return PlannedRecipe{*std::move(prepared), *std::move(answer), std::move(errors)};
}

/// Returns "picture.svg", or "picture.NODE.svg" if several nodes are drawn.
std::string picture_name(const std::string& file, const std::string& node, std::size_t count) {
  if (count < 2) return file;
  const std::string stem = file.ends_with(".svg") ? file.substr(0, file.size() - 4) : file;
  return stem + "." + node + ".svg";
}

/// Draws every plan that has a curve, and returns the written files.
std::vector<std::string> draw(const PlannedRecipe& asked, const std::string& file) {
  std::vector<std::string> written;
  if (file.empty()) return written;
  const auto count = std::ranges::count_if(
      asked.answer.plans, [](const MemoryPlan& plan) { return !plan.curve.empty(); });
  for (const MemoryPlan& plan : asked.answer.plans) {
    if (plan.curve.empty()) continue;
    written.push_back(picture_name(file, plan.node, static_cast<std::size_t>(count)));
    try {
      write_atomically(written.back(), draw_plan(plan, asked.prepared.recipe.name).svg());
    } catch (const WriteError& error) {
      Diagnostic diagnostic = error.diagnostic();
      if (const std::size_t at = diagnostic.help.find("run.dir"); at != diagnostic.help.npos)
        diagnostic.help.replace(at, 7, "--svg");
      throw WriteError(diagnostic);
    }
  }
  return written;
}

std::string reuse_note(const NodeReuse& node) {
  if (node.state == "unknown") {
    return node.why.empty() ? "the memory it needs is known only after the nodes before it have run"
                            : "cannot be planned: " + printable(node.why);
  }
  if (node.state == "miss") return node.why.empty() ? "miss" : "miss: " + printable(node.why);
  return printable(node.why);
}

std::string reuse_text(const PlannedRecipe& asked, const TextStyle& style) {
  const std::vector<NodeReuse>& nodes = asked.answer.reuse;
  if (nodes.empty()) return "";
  const std::set<std::string> computed = nodes_to_run(asked.prepared.graph, nodes);
  std::vector<std::vector<std::string>> rows = {{"node", "in a run", ""}};
  for (const NodeReuse& node : nodes) {
    const char* what = node.state == "hit" ? "is reused"
                       : computed.contains(node.node)
                           ? "runs"
                           : "is not needed: the nodes that use it are reused";
    rows.push_back({printable(node.node), what, reuse_note(node)});
  }
  return table_text(rows, style.table_width()) + "\n";
}

std::string summary(const PlanAnswer& answer) {
  std::string text;
  const MemoryPlan* const peak = answer.largest_plan();
  if (!peak) {
    text = "nothing was planned";
  } else {
    const auto fitting = std::ranges::count_if(answer.plans, &MemoryPlan::fits);
    const auto count = static_cast<std::ptrdiff_t>(answer.plans.size());
    text = fitting == count ? "fits" : "does not fit";
    text += ": the run needs the most memory at " + printable(peak->node) + ": " +
            size_text(peak->needed);
    if (peak->budget) text += " of " + size_text(*peak->budget);
    if (!peak->held.empty()) text += ", " + held_text(*peak);
  }
  const auto reused = std::ranges::count(answer.reuse, "hit", &NodeReuse::state);
  text += "; " + std::to_string(reused) + " of " + std::to_string(answer.reuse.size()) +
          " nodes reused";
  const auto unknown = std::ranges::count(answer.reuse, "unknown", &NodeReuse::state);
  return text + (unknown > 0 ? ", " + std::to_string(unknown) + " not planned\n" : "\n");
}

ExitCode plan(const PlanFlags& flags, Console& console) {
  Sources& sources = console.sources;
  const auto asked = ask(flags, console, sources, /*certify=*/false);
  if (!asked) return report(console, asked.errors());
  if (!console.is_quiet()) {
    const auto& [composition, recipe, graph, broken_rules] = asked->prepared;
    for (const std::string& line :
         look_at_image_folders(recipe.resolved, graph.working_folder).lines)
      console.err << line << '\n';
  }
  const Diagnostics& errors = asked->errors;
  try {
    const std::vector<std::string> pictures = draw(*asked, flags.svg);
    if (console.json) {
      Json json = asked->answer.json;
      const MemoryPlan* const peak = asked->answer.largest_plan();
      json["run_peak"] = peak ? run_peak(*peak) : Json();
      if (!pictures.empty()) json["pictures"] = pictures;
      print_result(console, "plan/1", json, errors);
    } else {
      for (const MemoryPlan& plan : asked->answer.plans)
        console.out << plan_text(plan, console.style) << '\n';
      console.out << reuse_text(*asked, console.style);
      for (const std::string& path : pictures) console.out << printable(path) << '\n';
      console.out << summary(asked->answer);
      console.out.flush();
    }
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  if (!errors.empty()) return console.json ? exit_code(errors) : report(console, errors);
  const bool would_run = !nodes_to_run(asked->prepared.graph, asked->answer.reuse).empty();
  return flags.detailed_exitcode && would_run ? ExitCode::kWouldRun : ExitCode::kDone;
}

ExitCode certify(const PlanFlags& flags, Console& console) {
  Sources& sources = console.sources;
  const auto asked = ask(flags, console, sources, /*certify=*/true);
  if (!asked) return report(console, asked.errors());
  const Diagnostics& errors = asked->errors;
  const std::vector<Certificate>& certificates = asked->answer.certificates;
  if (certificates.empty()) {
    if (!errors.empty()) return report(console, errors);
    return report(console,
                  {{ErrorCode::kNothingCompared,
                    {},
                    "",
                    "the recipe does not train anything, so there is no gradient to compare",
                    "choose a recipe with a training stage"}});
  }
  const bool all_hold = std::ranges::all_of(certificates, &Certificate::holds);
  if (console.json) {
    print_result(console, "certify/1", {{"certificates", asked->answer.json["certificates"]}},
                 errors);
  } else {
    for (const Certificate& certificate : certificates)
      console.out << certificate_text(certificate, console.style);
    console.out.flush();
  }
  if (!errors.empty()) return console.json ? exit_code(errors) : report(console, errors);
  return all_hold ? ExitCode::kDone : ExitCode::kRunFailed;
}

Invocation declare_plan() {
  const auto flags = std::make_shared<PlanFlags>();
  Invocation verb;
  verb.is_single = true;
  verb.add_recipe(flags->recipe);
  verb.add({.name = "--budget",
            .value = &flags->budget,
            .summary = "Check against this much memory, such as 8GiB, 512MiB or 8GB",
            .type = "SIZE"});
  verb.add({.name = "--gpu",
            .value = &flags->gpu,
            .summary = "Plan for a GPU that this machine does not have, given its name or part of "
                       "it, such as L4; an unknown name lists all known GPUs",
            .type = "GPU"});
  add_ranks(verb, "--devices", flags->ranks);
  verb.add({.name = "--only",
            .value = &flags->only,
            .summary = "Plan only this node and the nodes that it needs",
            .type = "NODE"});
  verb.add({.name = "--svg",
            .value = &flags->svg,
            .summary = "Draw memory use over a training step as SVG; one file per node",
            .type = "FILE",
            .is_written = true});
  verb.add({.name = "--detailed-exitcode",
            .value = &flags->detailed_exitcode,
            .summary = "Exit with 2 if anything would run, and with 0 if everything is reused"});
  add_reuse(verb, flags->reuse, "Plan as for `run --reuse`");
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) { return plan(*flags, console); };
  return verb;
}

Invocation declare_certify() {
  const auto flags = std::make_shared<PlanFlags>();
  Invocation verb;
  verb.is_single = true;
  verb.add_recipe(flags->recipe);
  add_ranks(verb, "--ranks", flags->ranks);
  verb.add({.name = "--only",
            .value = &flags->only,
            .summary = "Certify only this node",
            .type = "NODE"});
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) { return certify(*flags, console); };
  return verb;
}

}  // namespace

const Command kPlanCommand = {
    "plan", "Shows how much memory a run would need, and whether it fits, without running it.",
    "retort plan classify data.root=photos --budget 8GiB", declare_plan};
const Command kCertifyCommand = {"certify",
                                 "Checks numerically, on small shapes, that a training step "
                                 "computes the gradient of the whole batch.",
                                 "retort certify classify data.root=photos memory.micro_batch=8",
                                 declare_certify};

}  // namespace runner
