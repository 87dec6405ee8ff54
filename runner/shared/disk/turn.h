#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "runner/shared/disk/descriptor.h"

namespace runner {

/// The right to make what others may be about to make too: a lock (flock(2)) on a file beside it, which ends with the
/// process however that ends. Whoever had to wait looks whether it is there once it has its turn.
class Turn {
 public:
  /// Waits for the turn at `file`, which is made; `on_wait` is called once where somebody else has it. nullopt where
  /// `is_cancelled`, asked several times a second, says so, and where the file cannot be made or its file system has
  /// no locks: then everybody works for themselves.
  static std::optional<Turn> take(const std::filesystem::path& file, const std::function<bool()>& is_cancelled,
                                  const std::function<void()>& on_wait);
  Turn(Turn&&) noexcept = default;
  Turn& operator=(Turn&&) = delete;
  /// Removes the file, and gives the turn to the next.
  ~Turn();

 private:
  Turn(std::filesystem::path path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace runner
