#include "stages/fetch/callbacks.h"

#include <chrono>
#include <utility>

namespace stages {
namespace {

constexpr double kInterval = 0.1;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

FetchCallbacks callbacks_of(runner::RunContext& context) {
  return {.progress = [&context](const runner::Progress& progress) { context.progress(progress); },
          .say = [&context](std::string_view line) { context.say(line); },
          .cancelled = [&context] { return context.cancelled(); }};
}

void stop_if_cancelled(const FetchCallbacks& callbacks) {
  if (callbacks.cancelled && callbacks.cancelled()) throw runner::Cancelled{};
}

ByteProgress::ByteProgress(const FetchCallbacks& callbacks, std::string phase, std::int64_t begin, std::int64_t all)
    : callbacks_(callbacks), phase_(std::move(phase)), all_(all), told_bytes_(begin), told_seconds_(seconds_now()) {}

void ByteProgress::at(std::int64_t done) {
  if (!callbacks_.progress) return;
  const double now = seconds_now(), passed = now - told_seconds_;
  if (passed < kInterval && done != all_) return;
  if (passed > 0) {  // smoothed: a line wavers from one piece to the next
    const double speed = static_cast<double>(done - told_bytes_) / passed;
    bytes_per_second_ = bytes_per_second_ > 0 ? 0.9 * bytes_per_second_ + 0.1 * speed : speed;
  }
  told_bytes_ = done;
  told_seconds_ = now;
  runner::Progress progress;
  progress.phase = phase_;
  progress.bytes = done;
  progress.bytes_in_all = all_;
  progress.bytes_per_second = bytes_per_second_;
  if (all_ > done && bytes_per_second_ > 0)
    progress.seconds_left = static_cast<double>(all_ - done) / bytes_per_second_;
  callbacks_.progress(progress);
}

}  // namespace stages
