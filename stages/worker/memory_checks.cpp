#include "stages/worker/memory_checks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <torch/cuda.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/machine/memory_meter.h"
#include "stages/worker/small_training.h"

namespace stages {
namespace {

using runner::bytes_text;

constexpr double kLimit = 1e-12;  // below this difference, gradients are equal in exact arithmetic

/// Thrown if a check found something wrong.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void expect(bool is_so, const std::string& otherwise) {
  if (!is_so) throw Failed(otherwise);
}

std::string in_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", number);
  return text;
}

constexpr std::int64_t kRefused = 12;  // an allocation in the middle of a step

class Checks {
 public:
  explicit Checks(const Mechanisms& mechanisms) : mechanisms_(mechanisms) {
    if (!allocator_) throw Failed("the tensors of this process are not counted");
  }

  std::string variable(const char* name) const {
    // LibTorch reads its environment variables once per process, so each variable is tried in its
    // own process.
    const pid_t child = fork();
    if (child < 0) throw Failed("cannot start a process for this check");
    if (child == 0) {
      for (const char* const one : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) unsetenv(one);
      setenv(name, "expandable_segments:True", 1);
      _exit(allocator_settings_in_force().expandable_segments.value_or(false) ? 0 : 1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "expandable_segments:True is not in force");
    return "expandable_segments:True is in force";
  }

  std::string count() const {
    const std::int64_t before = allocator_->live_bytes(), blocks = allocator_->allocations();
    mechanisms_.restart_peak ? mechanisms_.restart_peak() : allocator_->restart_peak();
    {
      const at::Tensor one = torch::empty({1000}, torch::kFloat);
      torch::empty({3, 7}, torch::kDouble);
      const std::int64_t live = allocator_->live_bytes() - before,
                         peak = allocator_->peak_bytes() - before;
      expect(live == 4000, "4000 bytes are live, but " + std::to_string(live) + " are counted");
      expect(peak == 4168, "4168 bytes were live, but the peak is " + std::to_string(peak));
    }
    expect(allocator_->allocations() == blocks + 2, "the 2 allocated blocks are not counted");
    expect(allocator_->live_bytes() == before, "freed memory is still counted");
    return "live bytes, peak and blocks are exact";
  }

  std::string budget() const {
    constexpr std::int64_t kBudget = 1 << 20;
    // A pool reserves whole pages, with some bytes of overhead for each block.
    CpuPool* const pool = allocator_->pool();
    const std::int64_t beside = pool ? 4 * BlockPool::kPage : 0;
    if (pool) pool->empty_cache();
    const std::int64_t live = allocator_->live_bytes(), before = pool ? pool->reserved() : live;
    const auto limit_before = allocator_->limit();
    const auto set = [&](std::optional<std::int64_t> bytes) {
      mechanisms_.set_limit ? mechanisms_.set_limit(bytes) : allocator_->set_limit(bytes);
    };
    set(before + kBudget);
    bool is_refused = false, is_given = true;
    try {
      torch::empty({kBudget + 1}, torch::kByte);
    } catch (const c10::OutOfMemoryError&) {
      is_refused = true;
    }
    const std::int64_t after = allocator_->live_bytes();
    try {
      torch::empty({kBudget - beside}, torch::kByte);
    } catch (const c10::OutOfMemoryError&) {
      is_given = false;
    }
    set(limit_before);
    allocator_->take_refused();
    expect(is_refused, "1 byte above a budget of 1.0 MiB is granted");
    expect(is_given, "1.0 MiB is refused with a budget of 1.0 MiB");
    expect(after == live, "refused allocations are counted");
    return "1.0 MiB is granted, and 1 byte more is refused";
  }

  std::string replay() const {
    SmallTraining undisturbed, disturbed;
    undisturbed.run(0, 0);
    const std::int64_t refusals = allocator_->refusals();
    disturbed.run(kRefused, mechanisms_.replays);
    expect(allocator_->refusals() == refusals + 1, "no block was refused");
    expect(undisturbed.weights().equal(disturbed.weights()),
           "the weights differ from those of an undisturbed training run");
    return "a step repeated after running out of memory gives the same result, bit for bit";
  }

  std::string recovery() const {
    SmallTraining faulty, whole;
    bool was_thrown = false, is_first = false;
    try {
      faulty.run(kRefused, 0);
    } catch (const runner::StageError& error) {
      was_thrown = error.code == runner::ErrorCode::kOutOfMemory;
    }
    expect(was_thrown, "a persistent fault does not end the training with an out-of-memory error");
    whole.run(0, 0, [&](std::int64_t step) {
      if (step == 2) is_first = whole.weights().equal(faulty.weights());
    });
    expect(is_first,
           "after a fault in the second step, the weights differ from those after the first step");
    return "a persistent fault leaves the weights as they were after the last complete step";
  }

  /// `coupled` selects a loss over the whole batch, computed in two passes.
  std::string gradient(bool coupled) const {
    const SmallStep step(coupled);
    const at::Tensor whole = gradient_of(step, {});
    const at::Tensor parts = gradient_of(step, {.micro_batch = 3, .two_pass = coupled});
    const double error = ((parts - whole).norm() / whole.norm()).item<double>();
    expect(error < kLimit,
           "micro-batches of 3 give a different gradient than the batch of 8: relative error " +
               in_text(error));
    return "micro-batches of 3 give the same gradient as the batch of 8: relative error " +
           in_text(error);
  }

  std::string recomputation() const {
    const SmallStep step(false);
    const at::Tensor kept = gradient_of(step, {});
    expect(kept.equal(gradient_of(step, {.activation_checkpointing = {.blocks = true}})),
           "recomputed activations give a different gradient than stored ones");
    return "recomputed activations give the same gradient, bit for bit, even with dropout";
  }

  std::string gram() const {
    const at::Tensor direct = gradient_of(SmallStep(true, CovarianceForm::kDirect), {});
    const at::Tensor gram = gradient_of(SmallStep(true, CovarianceForm::kGram), {});
    const double error = ((gram - direct).norm() / direct.norm()).item<double>();
    expect(error < kLimit,
           "the samples x samples form gives a different gradient than features x features: "
           "relative error " +
               in_text(error));
    return "the samples x samples form gives the same gradient as features x features: relative "
           "error " +
           in_text(error);
  }

  std::string settings() const {
    for (const bool is_on : {true, false}) {
      mechanisms_.apply_settings({.expandable_segments = is_on,
                                  .max_split_size_mb = {},
                                  .garbage_collection_threshold = {},
                                  .roundup_power2_divisions = {}});
      expect(allocator_settings_in_force().expandable_segments.value_or(false) == is_on,
             std::string("expandable_segments is not ") + (is_on ? "on" : "off") +
                 " when it is read back");
    }
    return "expandable_segments reads back as it was set";
  }

  std::string empty_cache() const {
    constexpr std::int64_t kSize = 64 << 20;
    if (torch::cuda::is_available()) {
      const at::Device device(at::kCUDA, 0);
      const MemoryMeter gpu(device);
      torch::empty({kSize}, at::device(device).dtype(torch::kByte));
      const std::int64_t held = gpu.use().reserved;
      stages::empty_cache(device);
      expect(gpu.use().reserved <= held - kSize, "64 MiB of unused memory stays reserved");
      return "64 MiB of unused memory goes back to the driver";
    }
    CpuPool* const pool = allocator_->pool();
    if (!pool) return "nothing is kept: the tensors come from malloc";
    const auto resident = [] { return kilobytes_field("/proc/self/status", "VmRSS"); };
    torch::ones({kSize}, torch::kByte);
    const std::int64_t reserved = pool->reserved(), present = resident();
    pool->empty_cache();
    expect(pool->reserved() <= reserved - kSize, "64 MiB of unused memory stays reserved");
    expect(resident() <= present - kSize / 2, "64 MiB of unused memory stays resident");
    return "64 MiB of unused memory is returned to the system";
  }

 private:
  /// Computes a gradient in float64, with dropout.
  at::Tensor gradient_of(const SmallStep& step, const StepPlan& plan) const {
    const Batch batch = double_batch();
    SmallNetwork network;
    network.to(torch::kDouble);
    network.train();
    mechanisms_.accumulate(step, {network, plan.numerics, at::kCPU}, batch, step.weight(batch),
                           plan, {7, 1}, {});
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : network.parameters())
      all.push_back(parameter.grad().flatten());
    return torch::cat(all);
  }

  static Batch double_batch() {
    std::vector<std::int64_t> labels, indices;
    for (std::int64_t i = 0; i < 8; ++i) {
      labels.push_back(i % 3);
      indices.push_back(i);
    }
    Batch batch(
        {{"image", sines({8, 4}, 2.1).to(torch::kDouble)}, {"label", torch::tensor(labels)}}, 8);
    batch.indices = indices;
    return batch;
  }

  const Mechanisms& mechanisms_;
  CountingAllocator* const allocator_ = CountingAllocator::innermost();
};

}  // namespace

std::vector<MechanismCheck> check_mechanisms(const Mechanisms& mechanisms) {
  using Run = std::string (*)(const Checks&);
  // The variables come first, because LibTorch must not have read them yet.
  constexpr std::array<std::pair<const char*, Run>, 12> kAll = {{
      {"PYTORCH_ALLOC_CONF",
       [](const Checks& checks) { return checks.variable("PYTORCH_ALLOC_CONF"); }},
      {"PYTORCH_CUDA_ALLOC_CONF",
       [](const Checks& checks) { return checks.variable("PYTORCH_CUDA_ALLOC_CONF"); }},
      {"allocator settings", [](const Checks& checks) { return checks.settings(); }},
      {"exact count", [](const Checks& checks) { return checks.count(); }},
      {"budget", [](const Checks& checks) { return checks.budget(); }},
      {"replay", [](const Checks& checks) { return checks.replay(); }},
      {"fault recovery", [](const Checks& checks) { return checks.recovery(); }},
      {"micro-batches", [](const Checks& checks) { return checks.gradient(false); }},
      {"two passes", [](const Checks& checks) { return checks.gradient(true); }},
      {"activation checkpointing", [](const Checks& checks) { return checks.recomputation(); }},
      {"covariance as Gram", [](const Checks& checks) { return checks.gram(); }},
      {"empty cache", [](const Checks& checks) { return checks.empty_cache(); }},
  }};
  std::vector<MechanismCheck> results;
  for (const auto& [name, run] : kAll) {
    try {
      results.push_back({name, true, run(Checks(mechanisms))});
    } catch (const std::exception& error) {
      const std::string_view what = error.what();
      results.push_back({name, false, std::string(what.substr(0, what.find('\n')))});
    }
  }
  return results;
}

runner::Result<nlohmann::ordered_json> answer_check_memory(const nlohmann::ordered_json&,
                                                           const RequestContext&) {
  using Json = nlohmann::ordered_json;
  Json checks = Json::array();
  bool passed = true;
  for (const MechanismCheck& check : check_mechanisms()) {
    checks.push_back({{"name", check.name}, {"passed", check.passed}, {"found", check.found}});
    passed = passed && check.passed;
  }
  return Json{{"checks", std::move(checks)}, {"passed", passed}};
}

}  // namespace stages
