#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/device_choice.h"
#include "runner/parent/cli/commands/doctor.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/disk/write_error.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/run/ask_worker.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// A folder that is gone with this.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = std::filesystem::temp_directory_path() / "retort-XXXXXX";
    if (!mkdtemp(name.data())) throw WriteError(write_diagnostic(name, errno, ErrorCode::kCannotCreate));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Has two fresh workers, one after the other, make the first `steps` steps of every training of `graph`, and compares
/// every tensor of every step.
///
/// Returns what stages/worker/determinism_check.h says of the second: {"steps", "tensors", "difference"}. Errors of the
/// runs have pointers into the recipe but no places; kNothingCompared where the graph trains nothing. What the runs
/// write lies below `scratch`.
Result<Json> check_determinism(const Graph& graph, std::int64_t steps, const WorkerCommand& worker,
                               const std::filesystem::path& scratch, ProgressDisplay& display) {
  Json answer;
  for (const bool compare : {false, true}) {
    const std::string run = compare ? "run 2" : "run 1";
    const std::filesystem::path folder = scratch / run;
    std::error_code error;
    std::filesystem::create_directories(RunLayout(folder).records(), error);
    if (error) return write_diagnostic(folder, error.value(), ErrorCode::kCannotCreate);

    Conversation conversation = shown_conversation(display);
    conversation.on_event = [&, show = conversation.on_event](const Event& event, WorkerProcess& process) {
      if (std::holds_alternative<Flush>(event)) process.send(Json{{"flushed", true}}.dump());
      if (std::holds_alternative<Ready>(event)) process.send(Json{{"go", {{"folder", folder.string()}}}}.dump());
      if (const auto* at = std::get_if<NodeProgress>(&event)) display.progress(run + " " + at->node, at->progress);
      else if (!std::holds_alternative<Said>(event)) show(event, process);
    };
    const Json request = {
        {"protocol", kProtocolVersion},
        {"request", "run"},
        {"graph", to_json(graph)},
        {"smoke", true},
        {"check", {{"steps", steps}, {"file", (scratch / "tensors").string()}, {"compare", compare}}},
    };
    auto given = ask_worker(worker, request, conversation);
    display.clear();
    if (!given) return given.errors();
    answer = *std::move(given);
  }
  if (answer["tensors"] != 0) return answer;
  return Diagnostic{ErrorCode::kNothingCompared,
                    {},
                    "",
                    "nothing was compared: the recipe '" + graph.recipe + "' trains nothing",
                    "name a recipe with a stage that trains"};
}

std::string count_of(std::int64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string text_of(const Json& found) {
  const Json& difference = found["difference"];
  if (difference.is_null()) {
    return "deterministic: " + count_of(found["steps"], "step") + ", " + count_of(found["tensors"], "tensor") +
           " the same";
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

ExitCode check_determinism_of(const NamedRecipe& named, std::int64_t steps, const LogFlags& log, Console& console) {
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  auto prepared = prepare(named, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  auto worker = log.worker();
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);
  const auto device = take_own_device({.recipe = prepared->recipe.resolved,
                                       .graph = prepared->graph,
                                       .worker = *worker,
                                       .reuse = ReuseOptions::Which::kNone},
                                      console);
  if (!device) return report(console, device.errors());

  const ScratchFolder scratch;
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(prepared->recipe.resolved));
  auto found = check_determinism(prepared->graph, steps, *worker, scratch.path(), display);
  if (!found) return report(console, placed(found.errors(), prepared->recipe.resolved));
  if (console.json) print_result(console, "doctor_determinism/1", *found);
  else console.out << text_of(*found) << '\n';
  return (*found)["difference"].is_null() ? ExitCode::kDone : ExitCode::kRunFailed;
}

}  // namespace runner
