#include "stages/plan/recovery.h"

#include <algorithm>
#include <utility>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/units.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/device.h"
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
    text +=
        " (" + bytes_text(incident.tried) + " were requested while " + bytes_text(incident.taken);
    if (incident.limit > 0) text += " of " + bytes_text(incident.limit);
    text += " were in use)";
  }
  return text;
}

void clear_after_out_of_memory(c10::Device device) {
  if (auto* const counter = CountingAllocator::innermost()) counter->take_refused();
  empty_cache(device);
}

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
  const auto rows = [&](std::int64_t count) {
    return std::to_string(count) + (count == 1 ? " row" : " rows");
  };
  const std::string before = what_ + ": " + in_words(incident) + ": ";
  incident.from = incident.to = rows(at_once);
  if (times > 0) {
    most_ = half;
    incident.to = rows(half);
    context_.say(before + "repeating " + rows(units) + ", " + rows(half) + " at a time");
  } else {
    context_.say(before + "repeating " + rows(units));
  }
  context_.recovered(incident);
  clear_after_out_of_memory(device_);
  return true;
}

void do_with_retry(const MemoryPolicy& policy, c10::Device device, const std::string& what,
                   runner::RunContext& context, const std::function<void()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error, device) || !policy.recovery.allows_retry(0)) throw;
  }
  runner::Recovery incident = memory_incident(device);
  incident.from = incident.to = what;
  context.say(what + ": " + in_words(incident) + ": repeated");
  context.recovered(incident);
  clear_after_out_of_memory(device);
  work();
}

std::vector<std::string> other_devices(const MemoryPolicy& policy, c10::Device device) {
  std::vector<std::string> others;
  for (const OnOom what : policy.recovery.on_oom) {
    if (what == OnOom::kGpu && device.is_cuda()) others.emplace_back("gpu");
    if (what == OnOom::kCpu && !device.is_cpu()) others.emplace_back("cpu");
  }
  return others;
}

void run_or_go_elsewhere(const MemoryPolicy& policy, c10::Device device,
                         const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    std::vector<std::string> others = other_devices(policy, device);
    if (others.empty() || !is_out_of_memory(error, device)) throw;
    runner::Recovery incident = memory_incident(device);
    throw runner::StageError(runner::ErrorCode::kOutOfMemory, in_words(incident))
        .with_help("use a smaller memory.micro_batch or model")
        .elsewhere(std::move(others), std::move(incident));
  }
}

RetriedLoader::RetriedLoader(Pass pass, const MemoryPolicy& policy, runner::RunContext& context)
    : pass_(std::move(pass)), policy_(policy), context_(context), batches_(loader().batches()) {}

std::optional<Batch> RetriedLoader::next() {
  std::optional<Batch> batch;
  do_with_retry(policy_, c10::kCPU, "reading a batch", context_, [&] {
    try {
      batch = loader().next();
    } catch (...) {
      loader_.reset();
      skipped_before_ = skipped_;
      throw;
    }
  });
  pass_.first_batch = loader_->position();
  skipped_ = skipped_before_ + loader_->skipped();
  return batch;
}

Loader& RetriedLoader::loader() {
  if (!loader_)
    loader_.emplace(pass_.dataset, pass_.order, pass_.batch_size, pass_.epoch, pass_.drop_last,
                    pass_.first_batch, pass_.partial);
  return *loader_;
}

}  // namespace stages
