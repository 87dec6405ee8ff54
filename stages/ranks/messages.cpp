#include "stages/ranks/messages.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include <torch/types.h>

namespace stages {

Messages::Messages(const std::vector<ToSend>& tensors) : messages_(divided(tensors)) {
  make_room();
}

std::vector<Messages::Message> Messages::divided(const std::vector<ToSend>& tensors) {
  std::vector<Message> messages;
  std::map<std::pair<int, at::ScalarType>, std::size_t> open;  // the message to add to
  for (const auto& [tensor, rank] : tensors) {
    const auto size = static_cast<std::int64_t>(tensor.nbytes());
    const bool is_alone = size >= kAloneBytes;  // on all ranks, regardless of the layout on each
    const auto key = std::pair(rank, tensor.scalar_type());
    const auto found = open.find(key);
    if (!is_alone && found != open.end()) {
      Message& message = messages[found->second];
      if (message.numbers * tensor.element_size() + size <= kMessageBytes) {
        message.add(tensor);
        continue;
      }
    }
    if (!is_alone) open[key] = messages.size();
    messages.push_back({.rank = rank});
    messages.back().add(tensor);
  }
  return messages;
}

/// Allocates one tensor per message type, as large as the largest message of that type.
void Messages::make_room() {
  std::map<at::ScalarType, std::int64_t> most;
  const auto needs_none = [](const Message& message) {
    return message.tensors.size() == 1 && message.tensors.front().is_contiguous();
  };
  for (const Message& message : messages_) {
    std::int64_t& numbers = most[message.tensors.front().scalar_type()];
    if (!needs_none(message)) numbers = std::max(numbers, message.numbers);
  }
  std::map<at::ScalarType, at::Tensor> room;
  for (Message& message : messages_) {
    if (needs_none(message)) continue;
    const at::Tensor& first = message.tensors.front();
    at::Tensor& all = room[first.scalar_type()];
    if (!all.defined()) all = torch::empty({most[first.scalar_type()]}, first.options());
    message.flat = all.narrow(0, 0, message.numbers);
  }
}

void Messages::exchange(
    const std::function<void(const at::Tensor& message, int rank)>& send) const {
  const torch::NoGradGuard no_graph;
  for (const Message& message : messages_) {
    if (!message.flat.defined()) {
      send(message.tensors.front(), message.rank);
      continue;
    }
    const auto with_each = [&](const auto& move) {
      std::int64_t begin = 0;
      for (const at::Tensor& tensor : message.tensors) {
        move(tensor, message.flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
        begin += tensor.numel();
      }
    };
    with_each([](const at::Tensor& tensor, const at::Tensor& place) { place.copy_(tensor); });
    send(message.flat, message.rank);
    with_each([](const at::Tensor& tensor, const at::Tensor& place) { tensor.copy_(place); });
  }
}

}  // namespace stages
