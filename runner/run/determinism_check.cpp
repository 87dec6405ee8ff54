#include "runner/run/determinism_check.h"

#include <nlohmann/json.hpp>

#include "runner/run/shown_conversation.h"
#include "runner/disk/write_error.h"
#include "runner/stage/run_layout.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

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

}  // namespace runner
