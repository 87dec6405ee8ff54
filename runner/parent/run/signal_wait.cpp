#include "runner/parent/run/signal_wait.h"

#include <csignal>

namespace runner {

std::optional<int> SignalWait::operator()(std::chrono::steady_clock::duration time) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + time;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto occurred = nobody_.next(std::max(left, std::chrono::milliseconds(0)));
    const auto* const signal = std::get_if<SignalToUs>(&occurred);
    if (!signal) return std::nullopt;
    if (signal->number == SIGINT || signal->number == SIGTERM || signal->number == SIGHUP) return signal->number;
  }
}

}  // namespace runner
