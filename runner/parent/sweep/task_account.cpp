#include "runner/parent/sweep/task_account.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

std::string account_line(const TaskEvent& event) {
  nlohmann::ordered_json json = {{"state", name(event.state)}};
  if (event.state == TrialState::kRunning) {
    json["place"] = event.place;
  } else {
    json["exit"] = event.exit;
    json["seconds"] = number_json(event.seconds);
    if (!event.reason.empty()) json["reason"] = event.reason;
    if (!event.said.empty()) json["said"] = event.said;
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Reads an event from a line. Throws std::runtime_error if it is not valid.
TaskEvent event_from(const std::string& line) {
  const auto json = parse_json<nlohmann::ordered_json>(line);
  const JsonFields<nlohmann::ordered_json> fields(json, "a line of a task");
  const auto state = trial_state_named(fields.text("state"));
  if (!state) fields.fail("state", "a state");
  if (*state == TrialState::kRunning) return {.state = *state, .place = fields.text("place")};
  TaskEvent event{.state = *state,
                  .exit = static_cast<int>(fields.integer("exit")),
                  .seconds = fields.number("seconds"),
                  .reason = fields.has("reason") ? fields.text("reason") : ""};
  if (fields.has("said")) event.said = fields.texts("said");
  return event;
}

struct ReadAccount {
  std::vector<TaskEvent> events;
  std::string text;  // the complete lines of the account
};

ReadAccount read_account(const std::filesystem::path& path) {
  ReadAccount account;
  std::ifstream file = open_regular(path, std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    try {
      account.events.push_back(event_from(line));
      account.text += line + "\n";
    } catch (const std::runtime_error&) {
      // Skip a line damaged by a power failure; the run's own record is complete.
    }
  }
  return account;
}

}  // namespace

std::vector<TaskEvent> TaskAccount::read(const std::filesystem::path& path) {
  return read_account(path).events;
}

TaskAccount::TaskAccount(const std::filesystem::path& path, Storage& storage) {
  AtomicFile file(path, storage);
  file.append(read_account(path).text);
  file_.emplace(file.commit_and_release());
}

void TaskAccount::add(const TaskEvent& event) {
  file_->append(account_line(event));
  file_->sync();
}

}  // namespace runner
