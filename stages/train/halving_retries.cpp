#include "stages/train/halving_retries.h"

#include <algorithm>
#include <string_view>

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

}  // namespace stages
