#include "stages/memory/rows_at_once.h"

#include <algorithm>
#include <utility>

#include "stages/machine/device_error.h"
#include "stages/memory/memory_incident.h"

namespace stages {

void RowsAtOnce::run(std::int64_t units, const std::function<void(std::int64_t at_once)>& run) {
  for (std::int64_t times = 0;; ++times) {
    const std::int64_t at_once = std::min(most_.value_or(units), units);
    try {
      return run(at_once);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error, device_) || !retries(units, at_once, times)) throw;
    }
  }
}

bool RowsAtOnce::retries(std::int64_t units, std::int64_t at_once, std::int64_t times) {
  const std::int64_t half = std::max((at_once + 1) / 2, std::min(policy_.min_micro_batch, at_once));
  if (!policy_.recovery.allows_retry(times) || (times > 0 && half >= at_once)) return false;
  runner::Recovery incident = memory_incident(device_);
  const auto rows = [&](std::int64_t count) { return std::to_string(count) + (count == 1 ? " row" : " rows"); };
  const std::string before = what_ + ": " + in_words(incident) + ": ";
  incident.from = incident.to = rows(at_once);
  if (times > 0) {
    most_ = half;
    incident.to = rows(half);
    context_.say(before + rows(units) + " are repeated " + rows(half) + " at a time");
  } else {
    context_.say(before + rows(units) + (units == 1 ? " is" : " are") + " repeated");
  }
  context_.recovered(incident);
  clear_after_out_of_memory(device_);
  return true;
}

void do_with_retry(const MemoryPolicy& policy, c10::Device device, const std::string& what, runner::RunContext& context,
                   const std::function<void()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error, device) || !policy.recovery.allows_retry(0)) throw;
  }
  runner::Recovery incident = memory_incident(device);
  incident.from = incident.to = what;
  context.say(what + ": " + in_words(incident) + ": done once more");
  context.recovered(incident);
  clear_after_out_of_memory(device);
  work();
}

}  // namespace stages
