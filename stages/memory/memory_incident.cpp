#include "stages/memory/memory_incident.h"

#include "runner/text/bytes.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/empty_cache.h"
#include "stages/machine/memory_meter.h"

namespace stages {

runner::Recovery memory_incident(c10::Device device) {
  runner::Recovery incident{.cause = "out of memory"};
  auto* const counter = CountingAllocator::innermost();
  const auto refused = counter ? counter->refused() : std::nullopt;
  if (refused) {
    if (refused->phase != StepPhase::kIdle) incident.phase = name(refused->phase);
    incident.tried = refused->tried;
    incident.taken = refused->taken;
    incident.limit = refused->limit.value_or(0);
  } else if (device.is_cuda()) {
    incident.taken = MemoryMeter(device).use().reserved;
  }
  return incident;
}

std::string in_words(const runner::Recovery& incident) {
  using runner::bytes_text;
  std::string text = incident.cause;
  if (!incident.phase.empty()) text += " in phase '" + incident.phase + "'";
  if (incident.tried > 0) {
    text += " (" + bytes_text(incident.tried) + " were asked for while " + bytes_text(incident.taken);
    if (incident.limit > 0) text += " of " + bytes_text(incident.limit);
    text += " were taken)";
  }
  return text;
}

void clear_after_out_of_memory(c10::Device device) {
  if (auto* const counter = CountingAllocator::innermost()) counter->take_refused();
  empty_cache(device);
}

}  // namespace stages
