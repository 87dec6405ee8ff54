#include "stages/train/halving_retries.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <torch/cuda.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/plan/recovery.h"

namespace stages {

std::optional<HalvingRetries::Attempt> HalvingRetries::after(const std::string& device) {
  ++count_;
  if (count_ >= options_.max_retries) return {};
  if (batch_size_ > options_.min_batch_size) {
    batch_size_ = std::max(options_.min_batch_size, batch_size_ / 2);
    return Attempt{batch_size_, device};
  }
  batch_size_ = options_.batch_size;
  constexpr std::string_view kGpu = "cuda:";
  if (!device.starts_with(kGpu) || options_.gpus < 2) return Attempt{batch_size_, "cpu"};
  const std::int64_t next = (std::stoll(device.substr(kGpu.size())) + 1) % options_.gpus;
  return Attempt{batch_size_, std::string(kGpu) + std::to_string(next)};
}

TrainingResult train_in_halves(const TrainingStep& step, torch::nn::Module& network,
                               const TrainingData& data, TrainerOptions options,
                               MemoryPolicy policy, runner::RunContext& context) {
  context.say(
      "on_oom_policy: legacy: when memory runs out, the batch itself is halved and training "
      "starts over from the current weights, which changes the training");
  const std::int64_t parts =
      options.accumulated_micro_batch ? options.batch_size / *options.accumulated_micro_batch : 1;
  const std::string& device = context.node().device;
  HalvingRetries retries({.batch_size = options.batch_size / parts,
                          .min_batch_size = policy.min_micro_batch,
                          .max_retries = policy.recovery.max_retries.value_or(0),
                          .gpus = static_cast<std::int64_t>(torch::cuda::device_count())},
                         context.node().restarts.retries);
  policy.recovery.max_retries = 0;  // no retries of the same batch
  policy.recovery.on_oom = {OnOom::kStop};
  options.begins_anew = true;
  for (;;) {
    std::filesystem::remove_all(runner::NodeLayout(context.node().folder).checkpoints());
    try {
      return train(step, network, data, options, policy, context);
    } catch (const runner::StageError& error) {
      const auto next =
          error.code == runner::ErrorCode::kOutOfMemory ? retries.after(device) : std::nullopt;
      if (!next) throw;
      if (next->device != device)
        throw runner::StageError(error.code, error.what())
            .with_help(error.help)
            .elsewhere({next->device == "cpu" ? "cpu" : "gpu"}, error.incident, retries.count());
      const std::int64_t before = std::exchange(options.batch_size, next->batch_size * parts);
      if (parts > 1) options.accumulated_micro_batch = policy.micro_batch = next->batch_size;
      const std::string from = "batch_size " + std::to_string(before),
                        to = "batch_size " + std::to_string(options.batch_size);
      context.say("out of memory: " + to + " instead of " + std::to_string(before) +
                  ", restarting at the first epoch, retry " + std::to_string(retries.count()));
      context.recovered({.cause = "out of memory", .from = from, .to = to});
      context.resumed(0, 0);  // this attempt keeps only the weights
      clear_after_out_of_memory(at::Device(device));
    }
  }
}

}  // namespace stages
