#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// The most bytes that are sent at once, as in DistributedDataParallel.
inline constexpr std::int64_t kMessageBytes = 25 << 20;

/// A tensor to be sent, and the rank that it is about.
struct ToSend {
  at::Tensor tensor;
  int rank = 0;
};

/// Few messages for many tensors: those of one type and rank that follow each other go together, up
/// to kMessageBytes. The constructor allocates the room that the messages take turns in, and
/// exchange() allocates nothing.
class Messages {
 public:
  explicit Messages(const std::vector<ToSend>& tensors);

  /// Calls `send` with each message, a contiguous tensor. What it leaves there is written to the
  /// tensors of that message.
  void exchange(const std::function<void(const at::Tensor& message, int rank)>& send) const;

 private:
  /// Tensors that are sent as one.
  struct Message {
    std::vector<at::Tensor> tensors;
    int rank = 0;
    std::int64_t numbers = 0;
    at::Tensor flat;  // undefined: the only tensor, which is in order as it is
  };
  static std::vector<Message> divided(const std::vector<ToSend>& tensors);
  void make_room();

  std::vector<Message> messages_;
};

}  // namespace stages
