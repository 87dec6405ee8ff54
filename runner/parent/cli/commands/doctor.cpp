#include "runner/parent/cli/commands/doctor.h"

#include <unistd.h>

#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/shared/text/bytes.h"
#include "runner/parent/cli/command.h"
#include "runner/shared/disk/installation.h"
#include "runner/parent/run/ask_worker.h"

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
  line("retort", found["program"].get<std::string>() + ", build " + found["build"].get<std::string>());
  line("shipped", found["share"].get<std::string>());
  line("worker", found["worker_program"].get<std::string>() + ", of the same build");
  line("LibTorch", text_of(worker, "libtorch") + ", CUDA runtime: " + text_of(worker, "cuda_runtime"));
  line("processor", text_of(worker, "cpu_capability") + ", " + std::to_string(worker.value("threads", 0)) + " threads");
  for (const Json& device : worker.value("devices", Json::array())) {
    line("device", text_of(device, "name") + ", " + bytes_text(device.value("memory_bytes", std::int64_t{0})));
  }
  if (worker.contains("gpus_missing_because") && worker["gpus_missing_because"].is_string()) {
    line("GPU", "none: " + worker["gpus_missing_because"].get<std::string>());
  }
  line("here", found["folder"].get<std::string>() + ", " + bytes_text(found["free_bytes"].get<std::int64_t>()) +
                   " free" + (found["writable"].get<bool>() ? "" : ", NOT writable: runs need run.dir=DIR"));
}

struct DoctorFlags {
  std::string check;  ///< "determinism" or "memory"; empty: the machine
  NamedRecipe recipe;
  std::int64_t steps = 3;
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
  verb.add({.name = "check",
            .value = &flags->check,
            .summary = "determinism: run the first steps of a recipe twice and compare every tensor; memory: try out "
                       "the mechanisms of memory policies; default: look at this machine",
            .choices = {"determinism", "memory"}});
  verb.action = &flags->check;
  verb.add_recipe(flags->recipe);
  verb.needs_recipe = [flags] { return flags->check == "determinism"; };
  verb.add({.name = "--steps",
            .value = &flags->steps,
            .summary = "determinism: steps to compare, at most those of an epoch",
            .type = "N",
            .range = {1, 1'000'000},
            .shows_default = true});
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) {
    if (flags->check == "determinism") return check_determinism_of(flags->recipe, flags->steps, flags->log, console);
    return flags->check == "memory" ? check_memory(flags->log, console) : look_at_machine(flags->log, console);
  };
  return verb;
}

}  // namespace

const Command kDoctorCommand = {
    "doctor",
    "Checks this machine, the mechanisms of memory policies, or whether a recipe gives the same bits every time.",
    "retort doctor determinism classify data.root=photos", declare_doctor};

}  // namespace runner
