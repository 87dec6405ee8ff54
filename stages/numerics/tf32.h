#pragma once

namespace stages {

/// While it lives, a GPU may (or may not) multiply float32 numbers by their 10 leading bits, as TensorFloat-32, in
/// matrix products and in cuDNN, which LibTorch lets do so by default. It holds for the whole process; what held before
/// comes back. A CPU takes no notice.
class [[nodiscard]] ScopedTf32 {
 public:
  explicit ScopedTf32(bool allow);
  ~ScopedTf32();
  ScopedTf32(const ScopedTf32&) = delete;
  ScopedTf32& operator=(const ScopedTf32&) = delete;

 private:
  const bool products_, convolutions_;
};

}  // namespace stages
