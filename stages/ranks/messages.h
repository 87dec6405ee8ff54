#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// The maximum number of bytes sent at once, as in DistributedDataParallel.
inline constexpr std::int64_t kMessageBytes = 25 << 20;
/// A tensor with at least this many bytes is sent alone and, if it is contiguous, is not copied.
inline constexpr std::int64_t kAloneBytes = 1 << 20;

/// A tensor to send or receive, and the rank at the other end.
struct ToSend {
  at::Tensor tensor;
  int rank = 0;
};

/// Combines many tensors into a few messages: small tensors of the same type and rank are
/// sent together, up to kMessageBytes. The constructor allocates the memory, which all messages of
/// a type share; exchange() allocates nothing.
class Messages {
 public:
  explicit Messages(const std::vector<ToSend>& tensors);

  /// Calls `send` with each message, a contiguous tensor. The message, as `send` leaves it, is then
  /// copied back to the original tensors.
  void exchange(const std::function<void(const at::Tensor& message, int rank)>& send) const;

 private:
  /// Tensors sent as one message.
  struct Message {
    std::vector<at::Tensor> tensors;
    int rank = 0;
    std::int64_t numbers = 0;
    at::Tensor flat;  // undefined if a single contiguous tensor is sent directly
    void add(const at::Tensor& tensor) {
      tensors.push_back(tensor);
      numbers += tensor.numel();
    }
  };
  static std::vector<Message> divided(const std::vector<ToSend>& tensors);
  void make_room();

  std::vector<Message> messages_;
};

}  // namespace stages
