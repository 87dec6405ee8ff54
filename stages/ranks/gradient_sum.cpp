#include "stages/ranks/gradient_sum.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <torch/types.h>

#include "stages/ranks/messages.h"
#include "stages/ranks/packed_tensors.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// The numbers that ranks send when their part of a step ends; the largest one counts.
enum PartState : std::int64_t {
  kRestIsSafe,
  kRestMayFail,
  kContentsDiffer,  ///< not what was agreed
};

/// Returns for each parameter whether it has a gradient on any rank.
std::vector<bool> present_on_any(const std::vector<bool>& own, RankGroup& group) {
  at::Tensor ranks;  // for each parameter, the number of ranks with a gradient
  group.together([&] {
    ranks = torch::zeros({std::ssize(own)}, torch::kInt);
    std::ranges::copy(own, ranks.mutable_data_ptr<int>());
  });
  group.sum(ranks);
  const int* const count = ranks.const_data_ptr<int>();
  std::vector<bool> present;
  for (std::size_t i = 0; i < own.size(); ++i) present.push_back(count[i] > 0);
  return present;
}

/// Sets a gradient of zeros for each parameter that has a gradient only on other ranks.
void complete_gradients(const std::vector<at::Tensor>& parameters,
                        const std::vector<bool>& present) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (present[i] && !parameters[i].grad().defined())
      parameters[i].mutable_grad() = torch::zeros_like(parameters[i]);
  }
}

}  // namespace

/// The gradients of a step, and the numbers that are summed with them.
class GradientSum::Parts {
 public:
  /// With `ranks`, decides what is sent along. Allocates the memory for the rest.
  Parts(const std::vector<at::Tensor>& parameters, const at::Tensor& numbers, int ranks,
        bool stays_on_device) {
    std::vector<at::Tensor> small, all;
    std::vector<ToSend> large, rest;
    if (numbers.defined()) all.push_back(numbers);
    for (const at::Tensor& parameter : parameters) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      rest.push_back({gradient});
      stays_on_device |= gradient.is_cuda();
      if (static_cast<std::int64_t>(gradient.nbytes()) < kAloneBytes) small.push_back(gradient);
      else large.push_back({gradient});
    }
    packed_.emplace(all);
    all.insert(all.end(), small.begin(), small.end());
    PackedTensors with_small(all);
    const bool fits = !stays_on_device && with_small.bytes() <= ShortMessages::most_bytes(ranks);
    if (fits) packed_ = std::move(with_small);
    messages_.emplace(fits ? large : rest);
  }

  const PackedTensors& along() const { return *packed_; }
  const Messages& rest() const { return *messages_; }

 private:
  std::optional<PackedTensors> packed_;
  std::optional<Messages> messages_;
};

GradientSum::Contents GradientSum::contents_of(const std::vector<at::Tensor>& parameters,
                                               const at::Tensor& numbers) {
  Contents contents;
  for (const at::Tensor& parameter : parameters)
    contents.present.push_back(parameter.grad().defined());
  if (numbers.defined()) contents.numbers = static_cast<std::int64_t>(numbers.nbytes());
  return contents;
}

bool GradientSum::over_ranks(const std::vector<at::Tensor>& parameters, bool meets,
                             const std::function<OwnPart()>& compute) {
  if (ranks_.size == 1) return compute().is_rest_safe;
  RankGroup* const group = group_of(ranks_);
  at::Tensor numbers;
  std::optional<Parts> parts;
  const auto divide = [&] { parts.emplace(parameters, numbers, ranks_.size, stays_on_device_); };
  const auto pack = [&] { parts->along().pack(group->along(group->rank())); };
  const auto send_rest = [&] {
    parts->rest().exchange([&](const at::Tensor& message, int) {
      if (group) group->sum(message);
    });
  };
  if (!group) {
    const OwnPart own = compute();
    numbers = own.numbers;
    divide();
    send_rest();
    return own.is_rest_safe;
  }
  const auto compute_own = [&]() -> std::int64_t {
    const OwnPart own = compute();
    numbers = own.numbers;
    if (contents_of(parameters, numbers) != agreed_) return kContentsDiffer;
    divide();
    if (!meets) pack();
    return own.is_rest_safe ? kRestIsSafe : kRestMayFail;
  };
  const std::int64_t state = group->largest_of(compute_own, meets ? 0 : along_);
  if (state == kContentsDiffer) {
    parts.reset();
    Contents all = contents_of(parameters, numbers);
    all.present = present_on_any(all.present, *group);
    group->together([&] {
      complete_gradients(parameters, all.present);
      divide();
    });
    agreed_ = std::move(all);
    along_ = parts->along().bytes();
  }
  if (meets || state == kContentsDiffer) {
    pack();
    group->exchange_along(along_);
  }
  group->take_sum(parts->along());
  send_rest();
  return state == kRestIsSafe;
}

}  // namespace stages
