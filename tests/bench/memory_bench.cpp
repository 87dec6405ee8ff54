// The peak memory of training a tower: as predicted by a dry run, as counted by the tensor
// allocator, as reserved by the pool, and as seen by the operating system, which needs a fresh
// process.

#include <fstream>
#include <iostream>
#include <string>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/machine/memory_meter.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/summarize.h"
#include "tests/bench/blocks.h"
#include "tests/support/traced_tower.h"

namespace {

using Json = nlohmann::json;

void run_on(at::Device device, const TowerTraining& training, int steps) {
  TowerRun run(training, device);
  for (int step = 0; step < steps; ++step) run.step();
}

Json predicted(const TowerTraining& training, int steps, int threads) {
  stages::register_meta_kernels();
  const stages::Backend backend{.device = at::kCPU, .threads = threads, .model = {}};
  run_on(at::kMeta, training, 1);
  Json answer;
  answer["seconds"] = seconds_of([&] {
    const stages::MemoryTrace trace(backend);
    run_on(at::kMeta, training, steps);
    const runner::MemoryPlan plan = stages::summarize(trace, 0, backend, {});
    answer["predicted"] = {{"counted", plan.live}, {"reserved", plan.reserved}};
  });
  return answer;
}

std::int64_t counted(const TowerTraining& training, int steps) {
  const stages::CountingAllocator counter;
  run_on(at::kCPU, training, steps);
  return counter.peak_bytes();
}

std::int64_t reserved(const TowerTraining& training, int steps) {
  const stages::CpuPool pool;
  const stages::CountingAllocator counter;
  run_on(at::kCPU, training, steps);
  return pool.peak_reserved();
}

/// Returns how much the process grows at its peak. Memory that kernels allocate only once is
/// allocated beforehand and does not count.
std::int64_t resident(const TowerTraining& training, int steps) {
  TowerTraining small = training;
  small.batch = small.layers = 1;
  small.micro_batch = 0;
  run_on(at::kCPU, small, 1);
  const stages::CpuPool pool;
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the high-water mark
  const std::int64_t before = stages::kilobytes_field("/proc/self/status", "VmRSS");
  run_on(at::kCPU, training, steps);
  return stages::kilobytes_field("/proc/self/status", "VmHWM") - before;
}

}  // namespace

/// One argument, JSON: {"what": "predicted", "counted", "reserved" or "resident", "threads",
/// "steps", "batch", "image_size", "patch", "width", "heads", "layers", "micro_batch", "two_pass",
/// "lora"}.
int main(int, char** arguments) {
  const auto options = Json::parse(arguments[1]);
  const int threads = options.at("threads"), steps = options.at("steps");
  at::set_num_threads(threads);
  TowerTraining training;
  training.batch = options.at("batch");
  training.image_size = options.at("image_size");
  training.patch = options.at("patch");
  training.width = options.at("width");
  training.heads = options.at("heads");
  training.layers = options.at("layers");
  training.micro_batch = options.at("micro_batch");
  training.two_pass = options.at("two_pass");
  training.lora = options.at("lora");
  const std::string what = options.at("what");
  Json answer;
  if (what == "predicted") answer = predicted(training, steps, threads);
  else if (what == "counted") answer["counted"] = counted(training, steps);
  else if (what == "reserved") answer["reserved"] = reserved(training, steps);
  else answer["resident"] = resident(training, steps);
  std::cout << answer.dump() << std::endl;
  return 0;
}
