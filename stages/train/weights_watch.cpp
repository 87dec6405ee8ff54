#include "stages/train/weights_watch.h"

#include <cstring>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "stages/python/python_network.h"
#include "stages/tensor/tensor_memory.h"

namespace stages {
namespace {

constexpr std::int64_t kFirstSteps = 3, kStepsBetween = 64;

/// Returns a number that changes if any single bit of the tensor changes; 0 if the tensor has no
/// memory.
std::uint64_t digest_of(const at::Tensor& tensor) {
  if (!has_memory(tensor)) return 0;
  at::Tensor host = tensor.detach().to(at::kCPU);
  if (!host.is_non_overlapping_and_dense()) host = host.contiguous();
  const auto* const bytes = static_cast<const char*>(host.const_data_ptr());
  const std::size_t size = host.nbytes();
  constexpr std::uint64_t kOdd = 1099511628211u;
  std::uint64_t digest = 14695981039346656037u, word = 0;
  std::size_t at = 0;
  for (; at + sizeof(word) <= size; at += sizeof(word)) {
    std::memcpy(&word, bytes + at, sizeof(word));
    digest = (digest ^ word) * kOdd;
  }
  for (; at < size; ++at) digest = (digest ^ static_cast<unsigned char>(bytes[at])) * kOdd;
  return digest;
}

}  // namespace

WeightsWatch::WeightsWatch(const torch::nn::Module& network, std::string model_stage)
    : model_stage_(std::move(model_stage)) {
  if (!dynamic_cast<const PythonNetwork*>(&network)) return;
  for (const auto& item : network.named_parameters())
    weights_.push_back({.name = item.key(), .tensor = item.value()});
}

/// Decides whether the step after `done` steps is checked.
bool WeightsWatch::is_due(std::int64_t done) {
  return seen_++ < kFirstSteps || (done + 1) % kStepsBetween == 0;
}

void WeightsWatch::remember(std::int64_t done) {
  is_remembered_ = !weights_.empty() && is_due(done);
  if (!is_remembered_) return;
  for (Weight& weight : weights_) weight.digest = digest_of(weight.tensor);
}

void WeightsWatch::check(std::int64_t step) {
  if (!is_remembered_) return;
  for (const Weight& weight : weights_) {
    const std::uint64_t digest = digest_of(weight.tensor);
    if (digest == weight.digest || digest == 0 || weight.digest == 0) continue;
    throw runner::StageError(runner::ErrorCode::kStageFailed,
                             "Python code has changed the network's parameter '" + weight.name +
                                 "' by step " + std::to_string(step) +
                                 ", although only the optimizer may change parameters")
        .at("/entry")
        .in_stage("/" + model_stage_)
        .with_help(
            "look for code that writes to weight.data or to weight.detach(), for example in "
            "a hook; torch.nn.utils.parametrize can constrain weights instead");
  }
}

}  // namespace stages
