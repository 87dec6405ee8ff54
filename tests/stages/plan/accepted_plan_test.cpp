// Starts random training runs with the budget that their plans need: none runs out of memory.

#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/summarize.h"
#include "tests/support/traced_tower.h"

namespace stages {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[engine_() % choices.size()];
  }

 private:
  std::mt19937_64 engine_;
};

TowerTraining random_training(Random& random) {
  const std::int64_t patch = random.one_of<std::int64_t>({8, 16, 32});
  TowerTraining training = {.name = {},
                            .batch = random.one_of<std::int64_t>({1, 2, 3, 5, 8}),
                            .image_size = patch * random.one_of<std::int64_t>({2, 3, 4, 7}),
                            .patch = patch,
                            .width = random.one_of<std::int64_t>({32, 48, 64, 96}),
                            .heads = random.one_of<std::int64_t>({1, 2, 4}),
                            .layers = random.one_of<std::int64_t>({1, 2, 3})};
  training.micro_batch = random.one_of<std::int64_t>({0, 0, 1, 2});
  training.two_pass = training.micro_batch > 0 && random.one_of({false, true});
  training.lora = random.one_of({false, false, true});
  training.layout = random.one_of({Layout::kContiguous, Layout::kChannelsLast});
  training.activation = random.one_of({Activation::kQuickGelu, Activation::kGelu});
  training.dropout = random.one_of({0.0, 0.1});
  training.precision = random.one_of({Precision::kFp32, Precision::kBf16, Precision::kFp16});
  training.sgd = random.one_of({false, true});
  training.recomputes_blocks = random.one_of({false, true});
  return training;
}

/// Runs two steps.
void run_two_steps(const TowerTraining& training, at::Device device) {
  TowerRun tower(training, device);
  for (int step = 0; step < 2; ++step) tower.step();
}

std::int64_t planned_bytes(const TowerTraining& training, int threads) {
  register_meta_kernels();
  const Backend backend{.device = at::kCPU, .threads = threads, .model = {}};
  const MemoryTrace trace(backend);
  run_two_steps(training, at::kMeta);
  return summarize(trace, 0, backend, {}).needed;
}

/// Tries 100 training runs with RETORT_DEEP=1; a larger value sets their number.
int trainings() {
  const char* const deep = std::getenv("RETORT_DEEP");
  if (!deep) return 40;
  return std::atoi(deep) > 1 ? std::atoi(deep) : 100;
}

TEST(AcceptedPlan, NeverRunsOutOfMemory) {
  const int before = at::get_num_threads();
  for (int seed = 0; seed < trainings(); ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const TowerTraining training = random_training(random);
    const int threads = random.one_of({1, 2, 3, 4});
    at::set_num_threads(threads);
    const std::int64_t planned = planned_bytes(training, threads);
    const CpuPool pool;
    CountingAllocator counter;
    counter.set_limit(planned);
    EXPECT_NO_THROW(run_two_steps(training, at::kCPU))
        << "seed " << seed << ": patch " << training.patch << ", images of " << training.image_size
        << ", width " << training.width << ", batch " << training.batch << ", " << threads
        << " threads, planned " << planned;
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace stages
