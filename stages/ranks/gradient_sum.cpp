#include "stages/ranks/gradient_sum.h"

#include <cstdint>
#include <optional>

#include <torch/types.h>

#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

std::vector<bool> presence(const std::vector<at::Tensor>& parameters) {
  std::vector<bool> present;
  for (const at::Tensor& parameter : parameters) present.push_back(parameter.grad().defined());
  return present;
}

/// Returns for each parameter whether it has a gradient on any rank.
std::vector<bool> presence_on_any(const std::vector<at::Tensor>& parameters, RankGroup& group) {
  at::Tensor ranks;  // for each parameter, the number of ranks with a gradient
  group.together([&] {
    ranks = torch::zeros({static_cast<std::int64_t>(parameters.size())}, torch::kInt);
    auto* count = ranks.mutable_data_ptr<int>();
    for (const bool is_present : presence(parameters)) *count++ = is_present;
  });
  group.sum(ranks);
  const int* const count = ranks.const_data_ptr<int>();
  std::vector<bool> present;
  for (std::size_t i = 0; i < parameters.size(); ++i) present.push_back(count[i] > 0);
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

std::vector<ToSend> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<ToSend> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back({parameter.grad()});
  }
  return gradients;
}

}  // namespace

void GradientSum::over_ranks(const std::vector<at::Tensor>& parameters,
                             const std::function<at::Tensor()>& compute) {
  if (ranks_.size == 1) {
    compute();
    return;
  }
  RankGroup* const group = group_of(ranks_);
  at::Tensor numbers;
  std::optional<Messages> messages;
  const auto make_messages = [&] { messages.emplace(gradients_of(parameters)); };
  const auto compute_own = [&]() -> std::int64_t {
    numbers = compute();
    const bool is_agreed = !group || presence(parameters) == present_;
    if (is_agreed) make_messages();
    return is_agreed ? 0 : 1;
  };
  if (!group) {
    compute_own();
  } else if (group->largest_of(compute_own) > 0) {
    messages.reset();
    present_ = presence_on_any(parameters, *group);
    group->together([&] {
      complete_gradients(parameters, present_);
      make_messages();
    });
  }
  std::function<void()> finish;
  if (group && numbers.defined()) finish = group->begin_sum(numbers);
  messages->exchange([&](const at::Tensor& message, int) {
    if (group) group->sum(message);
  });
  if (finish) finish();
}

}  // namespace stages
