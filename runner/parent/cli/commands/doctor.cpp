#include "runner/parent/cli/commands/doctor.h"

#include <filesystem>
#include <memory>

#include <unistd.h>
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
#include "runner/parent/report/table_text.h"
#include "runner/parent/run/plan_request.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "none";
}

void print_report(std::ostream& out, const Json& found) {
  const auto line = [&](const std::string& what, const std::string& how) {
    out << what << std::string(what.size() < 12 ? 12 - what.size() : 1, ' ') << how << '\n';
  };
  const Json& worker = found["worker"];
  line("retort",
       found["program"].get<std::string>() + ", build " + found["build"].get<std::string>());
  line("shipped", found["share"].get<std::string>());
  line("worker", found["worker_program"].get<std::string>() + ", from the same build");
  line("LibTorch",
       text_of(worker, "libtorch") + ", CUDA runtime: " + text_of(worker, "cuda_runtime"));
  line("processor", text_of(worker, "cpu_capability") + ", " +
                        std::to_string(worker.value("threads", 0)) + " threads");
  for (const Json& device : worker.value("devices", Json::array())) {
    line("device", text_of(device, "name") + ", " +
                       bytes_text(device.value("memory_bytes", std::int64_t{0})));
  }
  if (worker.contains("gpus_missing_because") && worker["gpus_missing_because"].is_string()) {
    line("GPU", "none: " + worker["gpus_missing_because"].get<std::string>());
  }
  line("here",
       found["folder"].get<std::string>() + ", " +
           bytes_text(found["free_bytes"].get<std::int64_t>()) + " free" +
           (found["writable"].get<bool>() ? "" : ", NOT writable: set run.dir=DIR for runs"));
}

struct DoctorFlags {
  std::string check;  ///< "determinism", "memory" or "ranks"; empty: the machine
  NamedRecipe recipe;
  std::int64_t steps = 3;
  std::int64_t ranks = 2;
  LogFlags log;
};

ExitCode look_at_machine(const LogFlags& log, Console& console) {
  const auto worker = log.worker();
  if (!worker) return report(console, worker.errors());
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer = ask_worker(*worker, {{"protocol", kProtocolVersion}, {"request", "versions"}},
                                 shown_conversation(display, "doctor"));
  if (!answer) return report(console, answer.errors());
  std::error_code ignored;
  const auto here = std::filesystem::current_path(ignored);
  const Json found = {{"program", own_executable().string()},
                      {"build", build_id()},
                      {"share", share_folder().string()},
                      {"worker_program", worker->program.string()},
                      {"worker", *answer},
                      {"folder", here.string()},
                      {"free_bytes", std::filesystem::space(here, ignored).available},
                      {"writable", access(".", W_OK) == 0}};
  if (console.json) print_result(console, "doctor/1", found);
  else print_report(console.out, found);
  return ExitCode::kDone;
}

Invocation declare_doctor() {
  const auto flags = std::make_shared<DoctorFlags>();
  Invocation verb;
  verb.add(
      {.name = "check",
       .value = &flags->check,
       .summary =
           "determinism: run the first steps of a recipe twice and compare every tensor; memory: "
           "test the memory-policy mechanisms; ranks: measure the speed of all-reduce between "
           "several processes, as in multi-process training; default: check this machine",
       .choices = {"determinism", "memory", "ranks"}});
  verb.action = &flags->check;
  verb.add_recipe(flags->recipe);
  verb.needs_recipe = [flags] { return flags->check == "determinism"; };
  verb.add({.name = "--steps",
            .value = &flags->steps,
            .summary = "determinism: number of steps to compare, at most one epoch",
            .type = "N",
            .range = {1, 1'000'000},
            .shows_default = true});
  verb.add({.name = "--devices",
            .value = &flags->ranks,
            .summary = "ranks: number of processes",
            .type = "N",
            .range = {2, 64},
            .shows_default = true});
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) {
    if (flags->check == "determinism")
      return check_determinism_of(flags->recipe, flags->steps, flags->log, console);
    if (flags->check == "memory") return check_memory(flags->log, console);
    return flags->check == "ranks" ? check_ranks(flags->ranks, flags->log, console)
                                   : look_at_machine(flags->log, console);
  };
  return verb;
}

}  // namespace

const Command kDoctorCommand = {
    "doctor",
    "Checks this machine, the memory-policy mechanisms, the speed of all-reduce, or whether a "
    "recipe gives bit-identical results every time.",
    "retort doctor determinism classify data.root=photos", declare_doctor};

namespace {

using Json = nlohmann::ordered_json;

void print_checks(std::ostream& out, const Json& answer) {
  std::size_t width = 0, passed = 0;
  const Json& checks = answer.at("checks");
  for (const Json& check : checks)
    width = std::max(width, check.at("name").get_ref<const std::string&>().size());
  for (const Json& check : checks) {
    const std::string name = check.at("name");
    const bool is_passed = check.at("passed");
    passed += is_passed;
    out << (is_passed ? "PASS  " : "FAIL  ") << name << std::string(width - name.size() + 2, ' ')
        << check.at("found").get_ref<const std::string&>() << '\n';
  }
  out << passed << " of " << checks.size() << " mechanisms work\n";
}

}  // namespace

ExitCode check_memory(const LogFlags& log, Console& console) {
  const auto worker = log.worker();
  if (!worker) return report(console, worker.errors());
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer =
      ask_worker(*worker, {{"protocol", kProtocolVersion}, {"request", "check_memory"}},
                 shown_conversation(display, "doctor"));
  if (!answer) return report(console, answer.errors());
  if (console.json) print_result(console, "doctor_memory/1", *answer);
  else print_checks(console.out, *answer);
  return answer->at("passed").get<bool>() ? ExitCode::kDone : ExitCode::kRunFailed;
}

namespace {

void print_sums(Console& console, const Json& answer) {
  std::vector<std::vector<std::string>> rows = {{"message size", "time", "rate"}};
  for (const Json& sum : answer.at("sums")) {
    const auto bytes = sum.at("bytes").get<std::int64_t>();
    const double seconds = sum.at("seconds");
    const auto each_second = static_cast<std::int64_t>(static_cast<double>(bytes) / seconds);
    rows.push_back(
        {bytes_text(bytes), decimal(seconds * 1e3, 3) + " ms", bytes_text(each_second) + "/s"});
  }
  console.out << answer.at("ranks") << " ranks on this machine\n"
              << table_text(rows, console.style.table_width());
}

}  // namespace

ExitCode check_ranks(std::int64_t ranks, const LogFlags& log, Console& console) {
  const auto worker = log.worker();
  if (!worker) return report(console, worker.errors());
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer = ask_worker(
      *worker, {{"protocol", kProtocolVersion}, {"request", "check_ranks"}, {"ranks", ranks}},
      shown_conversation(display, "doctor"));
  if (!answer) return report(console, answer.errors());
  if (console.json) print_result(console, "doctor_ranks/1", *answer);
  else print_sums(console, *answer);
  return ExitCode::kDone;
}

namespace {

using Json = nlohmann::ordered_json;

/// Runs the first `steps` steps of every training node of `graph` twice, one run after the other,
/// and compares every tensor of every step. The runs write only below `scratch`.
///
/// Returns the answer of the second run, {"steps", "tensors", "difference"}, described in
/// stages/worker/determinism_check.h. Fails with kNothingCompared if the graph has no training
/// nodes. Errors from the runs have pointers into the recipe but no source locations.
Result<Json> check_determinism(const Graph& graph, std::int64_t steps, bool strict,
                               const WorkerCommand& worker, const OwnDevice& device,
                               const std::filesystem::path& scratch, ProgressDisplay& display) {
  Json answer;
  for (const bool compare : {false, true}) {
    const std::string run = compare ? "run 2" : "run 1";
    Conversation shown = shown_conversation(display);
    shown.on_event = [&, show = shown.on_event](const Event& event, WorkerProcess& process) {
      if (const auto* at = std::get_if<NodeProgress>(&event))
        display.progress(run + " " + at->node, at->progress);
      else if (!std::holds_alternative<Said>(event)) show(event, process);
    };
    const Json check = {
        {"smoke", true},
        {"strict", strict},
        {"check",
         {{"steps", steps}, {"file", (scratch / "tensors").string()}, {"compare", compare}}}};
    auto given = run_observed({graph, worker, device, scratch / run, check}, shown);
    display.clear();
    if (!given) return given.errors();
    answer = *std::move(given);
  }
  if (answer["tensors"] != 0) return answer;
  return Diagnostic{
      ErrorCode::kNothingCompared,
      {},
      "",
      "nothing was compared: the recipe '" + graph.recipe + "' does not train anything",
      "choose a recipe with a training stage"};
}

std::string count_of(std::int64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string text_of(const Json& found) {
  const Json& difference = found["difference"];
  if (difference.is_null()) {
    return "deterministic: " + count_of(found["steps"], "step") + ", " +
           count_of(found["tensors"], "tensor") + " the same";
  }
  const std::string phase = difference["phase"];
  const Json& largest = difference["largest"];
  return "not deterministic: " + difference["node"].get<std::string>() +
         (phase == "start" ? ", before step 1" : ", step " + difference["step"].dump()) + ": " +
         (phase == "start" ? "weights" : phase) + " '" + difference["tensor"].get<std::string>() +
         "', largest difference " +
         (largest.is_null()     ? "not known"
          : largest.is_string() ? largest.get<std::string>()
                                : largest.dump());
}

}  // namespace

ExitCode check_determinism_of(const NamedRecipe& recipe, std::int64_t steps, const LogFlags& log,
                              Console& console) {
  const SchemaSet& schemas = shipped_schemas();
  NamedRecipe named = recipe;
  auto prepared = prepare_with_pixels(named, /*launched=*/std::nullopt, log, console);
  if (!prepared) return report(console, prepared.errors());
  prepared = with_fewest_ranks(*std::move(prepared),
                               {.recipe = named, .log = log, .reuse = ReuseOptions::Which::kNone},
                               console);
  if (!prepared) return report(console, prepared.errors());
  auto worker = worker_for(prepared->graph, prepared->recipe.resolved, schemas, log);
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);
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
  auto found = check_determinism(prepared->graph, steps, named.strict, *worker, *device,
                                 scratch.path(), display);
  if (!found) return report(console, placed(found.errors(), prepared->recipe.resolved));
  if (console.json) print_result(console, "doctor_determinism/1", *found);
  else console.out << text_of(*found) << '\n';
  return (*found)["difference"].is_null() ? ExitCode::kDone : ExitCode::kRunFailed;
}

}  // namespace runner
