#include "runner/parent/sweep/ask_tell.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

constexpr std::size_t kLongestAnswer = 1 << 20;

}  // namespace

void AskTell::go_on(const std::vector<Trial>& trials,
                    const std::function<bool(const Trial&)>& is_over) {
  for (const Trial& trial : trials) {
    if (!trial.ask) continue;  // possible only if the journal was edited
    ask_of_trial_[trial.number] = *trial.ask;
    answered_before_.insert(*trial.ask);
    trials_of_before_.insert(trial.number);
    if (is_over(trial)) ended(trial);
  }
}

std::vector<std::uint64_t> AskTell::take(std::size_t wanted) {
  std::vector<std::uint64_t> added;
  while (asked_.size() < wanted && !is_done_) {
    while (answered_before_.contains(next_ask_)) ++next_ask_;
    asked_.insert(next_ask_);
    say({{"ask", next_ask_++}});
  }
  read_input();
  for (std::size_t end;
       !is_done_ && !asked_.empty() && (end = unread_.find('\n')) != unread_.npos;) {
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    if (line.find_first_not_of(" \r\t") != line.npos) hear(line, added);
  }
  return added;
}

void AskTell::read_input() {
  std::array<char, 1 << 16> piece;
  pollfd watched{input_, POLLIN, 0};
  while (!is_done_ && poll(&watched, 1, 0) == 1) {
    const ssize_t size = ::read(input_, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      // The last line may lack a newline.
      if (unread_.empty() || unread_.back() == '\n') is_done_ = unread_.empty();
      else unread_ += '\n';
      return;
    }
    unread_.append(piece.data(), static_cast<std::size_t>(size));
    if (unread_.size() > kLongestAnswer && unread_.find('\n') == unread_.npos) {
      say({{"error", "a line of more than 1 MiB"}});
      is_done_ = true;
    }
  }
}

void AskTell::hear(const std::string& line, std::vector<std::uint64_t>& added) {
  const Json json = parse_json<Json>(line);
  if (json.is_object() && json.contains("stop")) {
    is_done_ = true;
    return;
  }
  const bool is_answer = json.is_object() && json.contains("ask") &&
                         json["ask"].is_number_unsigned() && json.contains("settings") &&
                         json["settings"].is_object();
  if (!is_answer)
    return say(
        {{"error",
          R"(expected {"ask": 0, "settings": {"key": value}} or {"stop": true}, got )" + line}});
  const auto ask = json["ask"].get<std::uint64_t>();
  if (asked_.erase(ask) == 0)
    return say({{"error", "there is no open ask " + std::to_string(ask)}});
  const auto trial = add_(ask, json["settings"]);
  if (trial) {
    ask_of_trial_[*trial] = ask;
    added.push_back(*trial);
    return;
  }
  Json errors = Json::array();
  for (const Diagnostic& error : trial.errors())
    errors.push_back(error.message + (error.help.empty() ? "" : "; " + error.help));
  say({{"refused", ask}, {"errors", std::move(errors)}});
}

void AskTell::ended(const Trial& trial) {
  const auto ask = ask_of_trial_.find(trial.number);
  if (ask == ask_of_trial_.end()) return;  // this trial did not come from an ask
  Json line = {{"tell", ask->second}, {"trial", trial.number}, {"state", name(trial.state)}};
  if (trials_of_before_.contains(trial.number)) line["overrides"] = trial.settings;
  line.update(measured_(trial));
  if (!trial.reason.empty()) line["reason"] = trial.reason;
  say(line);
}

void AskTell::say(const Json& line) {
  output_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

}  // namespace runner
