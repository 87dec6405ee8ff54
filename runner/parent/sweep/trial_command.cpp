#include "runner/parent/sweep/trial_command.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/parent/config/override_text.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptLines = 40;

/// What was begun there and cannot be continued.
void set_aside(const SweepLayout& sweep, std::uint64_t number) {
  const fs::path run = sweep.run(number);
  std::error_code error;
  if (!fs::exists(run, error)) return;
  for (int attempt = 1;; ++attempt) {
    const fs::path aside = sweep.set_aside(number, attempt);
    if (fs::exists(aside, error)) continue;
    fs::rename(run, aside, error);
    return;  // where that fails, `retort run` says that the folder is taken
  }
}

}  // namespace

std::string run_status(const fs::path& run) {
  std::ifstream file(RunLayout(run).summary());
  const auto json = parse_json<nlohmann::json>(file);
  return json.is_object() ? json.value("status", "") : "";
}

WorkerCommand trial_command(const SweepLayout& sweep, std::uint64_t number, const fs::path& program,
                            const std::vector<std::string>& further, const std::vector<std::string>& of_new,
                            const std::vector<std::string>& of_resumed, bool anew) {
  const fs::path run = sweep.run(number);
  WorkerCommand command{.program = program};
  if (!anew && read_run(run)) {
    command.arguments = {"resume", run.string(), "-q"};
  } else {
    set_aside(sweep, number);
    command.arguments = {"run", sweep.recipe(number).string(), "run.dir=" + element_text(Value{run.string(), {}}),
                         "-q"};
  }
  command.arguments.insert(command.arguments.end(), further.begin(), further.end());
  const std::vector<std::string>& last = is_resumed(command) ? of_resumed : of_new;
  command.arguments.insert(command.arguments.end(), last.begin(), last.end());
  return command;
}

bool is_resumed(const WorkerCommand& command) { return command.arguments.front() == "resume"; }

void LastLines::add(std::string_view text) {
  for (const char letter : text) {
    if (letter == '\n') end_line();
    else if (line_.size() < 1000) line_ += letter;
  }
}

std::deque<std::string> LastLines::take() {
  if (!line_.empty()) end_line();
  return std::move(lines_);
}

void LastLines::end_line() {
  lines_.push_back(std::exchange(line_, ""));
  if (lines_.size() > kKeptLines) lines_.pop_front();
}

std::string failure_reason(const std::deque<std::string>& said, int exit) {
  for (const std::string& line : said)
    if (const std::size_t error = line.find("error["); error != line.npos) return line.substr(error);
  return "exit code " + std::to_string(exit);
}

}  // namespace runner
