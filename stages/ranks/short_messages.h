#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace c10d {
class Backend;
}

namespace stages {

/// Short messages that all ranks send to each other at the same time: a number and some bytes. Each
/// goes directly to every other rank, which takes less time than a collective. The constructor
/// allocates the memory, so messages can be sent when memory has run out.
class ShortMessages {
 public:
  /// The memory for the messages of all ranks, unless there are very many.
  static constexpr std::int64_t kAllBytes = 1 << 20;

  ShortMessages(int rank, int size);

  /// The maximum number of bytes in a message, a multiple of 16.
  static std::int64_t most_bytes(int size);

  /// The parts of a rank's message: its own to send, and those of others once they have arrived.
  std::int64_t& number(int rank);
  /// Aligned to 16 bytes.
  std::uint8_t* bytes(int rank);

  /// Sends the number and the first `bytes` bytes, of which all ranks must pass the same count, and
  /// waits for the messages of all others.
  void exchange(c10d::Backend& backend, std::int64_t bytes);

 private:
  std::uint8_t* message(int rank);

  const int rank_, size_;
  const std::unique_ptr<std::uint8_t[]> memory_;
};

}  // namespace stages
