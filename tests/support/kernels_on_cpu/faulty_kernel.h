#pragma once

inline constexpr unsigned kReversed = 64;  ///< elements, and threads, of a block

/// The mistakes that reverse_blocks() can make.
enum class Mistake {
  kNone,
  kReadsBeyondInput,
  kCopiesBeyondInput,
  kWritesBeyondOutput,
  kReadsOutput,
  kReadsBeyondShared,
  kReadsUnwrittenShared,
  kNoBarrier,
  kNoBarrierBeforeReuse,
  kTwoBarriers,
  kReturnsBeforeBarrier,
  kBlocksWriteOneElement,
  kBlocksReadOneElement,
};

/// Writes each part of kReversed values of `x` to `y` in reverse order, by way of shared memory, in
/// one block. Throws std::runtime_error with CUDA's message.
void reverse_blocks(const float* x, float* y, unsigned blocks, Mistake mistake);
