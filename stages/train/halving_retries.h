#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stages/train/trainer.h"

namespace stages {

/// Mimics how a published program handles out-of-memory errors (on_oom_policy: legacy), for
/// comparison. It halves the batch down to a minimum size. Then it moves to the next GPU with the
/// whole batch if there are several GPUs, otherwise to the CPU. A single retry count covers all of
/// this, and the program makes one retry fewer than its limit. Each retry trains from the
/// beginning.
class HalvingRetries {
 public:
  struct Options {
    std::int64_t batch_size = 0;  ///< batch size in the recipe
    std::int64_t min_batch_size = 1;
    std::int64_t max_retries = 0;
    std::int64_t gpus = 0;
  };
  /// `count` is the number of retries already made on other devices.
  explicit HalvingRetries(const Options& options, std::int64_t count = 0)
      : options_(options), batch_size_(options.batch_size), count_(count) {}

  struct Attempt {
    std::int64_t batch_size = 0;
    std::string device;  ///< "cuda:1" or "cpu"
    bool operator==(const Attempt&) const = default;
  };
  /// Returns the next attempt after memory ran out on `device`, or nullopt to give up.
  std::optional<Attempt> after(const std::string& device);

  std::int64_t count() const { return count_; }

 private:
  const Options options_;
  std::int64_t batch_size_;
  std::int64_t count_;
};

/// Trains with on_oom_policy: legacy. Throws what train() throws, once the retries are used up.
TrainingResult train_in_halves(const TrainingStep& step, torch::nn::Module& network,
                               const TrainingData& data, TrainerOptions options,
                               MemoryPolicy policy, runner::RunContext& context);

}  // namespace stages
