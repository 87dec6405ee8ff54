#include "runner/parent/cli/observed_run.h"

#include <optional>
#include <string_view>
#include <system_error>

#include "runner/parent/devices/take_device.h"
#include "runner/parent/run/meeting_file.h"
#include "runner/parent/run/supervise_ranks.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/protocol/meeting.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {

using Json = nlohmann::ordered_json;

Result<Json> run_observed(const ObservedRun& run, const Conversation& shown) {
  std::error_code error;
  std::filesystem::create_directories(RunLayout(run.folder).records(), error);
  if (error) return write_diagnostic(run.folder, error.value(), ErrorCode::kCannotCreate);
  const auto go = [&] { return Json{{"go", {{"folder", run.folder.string()}}}}; };
  Conversation conversation = shown;
  conversation.on_event = [&](const Event& event, WorkerProcess& process) {
    if (std::holds_alternative<Flush>(event)) process.send(Json{{"flushed", true}}.dump());
    if (std::holds_alternative<Ready>(event)) process.send(go().dump());
    if (shown.on_event) shown.on_event(event, process);
  };
  Json request = {
      {"protocol", kProtocolVersion}, {"request", "run"}, {"graph", to_json(run.graph)}};
  request.update(run.wanted);
  std::optional<MeetingFile> meeting;
  if (run.graph.ranks > 1) {
    meeting.emplace();
    request["meeting"] = to_json(Meeting{.file = meeting->path(), .ranks_here = run.graph.ranks});
  }
  const OtherRanks others{.count = run.graph.ranks,
                          .hand_over =
                              [&](int rank, WorkerCommand& command) {
                                const auto& devices = run.device.of_other_ranks;
                                const auto other = static_cast<std::size_t>(rank - 1);
                                if (other < devices.size()) hand_over(devices[other], command);
                              },
                          .go = go,
                          .on_line = [](int, std::string_view) {}};
  return ask_worker(run.worker, request, conversation, others);
}

}  // namespace runner
