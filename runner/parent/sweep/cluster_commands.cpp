#include "runner/parent/sweep/cluster_commands.h"

#include <csignal>

namespace runner {
namespace {

bool asks_to_stop(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

std::chrono::milliseconds until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

}  // namespace

ClusterCommands::Outcome ClusterCommands::run(const std::vector<std::string>& words,
                                              std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  Outcome outcome;
  auto started = set_.start({.program = "/usr/bin/env", .arguments = words});
  if (!started) {
    outcome.said = started.errors().front().message;
    return outcome;
  }
  WorkerProcess* const command = *started;
  while (true) {
    const auto occurred = set_.next(until(deadline));
    if (const auto* signal = std::get_if<SignalToUs>(&occurred); signal && asks_to_stop(signal->number))
      stopped_by_ = signal->number;
    if (std::holds_alternative<Timeout>(occurred)) {
      outcome.is_silent = true;
      break;
    }
    const auto* news = std::get_if<NewsOf>(&occurred);
    if (!news) continue;
    if (const auto* output = std::get_if<OutputText>(&news->news)) outcome.said += output->text;
    if (const auto* exit = std::get_if<WorkerExit>(&news->news)) {
      outcome.exit = exit->signal != 0 ? 128 + exit->signal : exit->exit;
      break;
    }
  }
  set_.remove(*command);
  return outcome;
}

std::optional<int> ClusterCommands::wait(std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!stopped_by_) {
    const auto occurred = set_.next(until(deadline));
    const auto* const signal = std::get_if<SignalToUs>(&occurred);
    if (!signal) return std::nullopt;
    if (asks_to_stop(signal->number)) return signal->number;
  }
  return std::exchange(stopped_by_, std::nullopt);
}

}  // namespace runner
