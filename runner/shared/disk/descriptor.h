#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include <unistd.h>

namespace runner {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  bool is_open() const { return number_ >= 0; }
  int operator*() const { return number_; }

 private:
  int number_ = -1;
};

/// The right to make what others may be about to make too: a lock (flock(2)) on a file beside it,
/// which ends with the process however that ends. Whoever had to wait looks whether it is there
/// once it has its turn.
class Turn {
 public:
  /// Waits for the turn at `file`, which is made; `on_wait` is called once where somebody else has
  /// it. nullopt where `is_cancelled`, asked several times a second, says so, and where the file
  /// cannot be made or its file system has no locks: then everybody works for themselves.
  static std::optional<Turn> take(const std::filesystem::path& file,
                                  const std::function<bool()>& is_cancelled,
                                  const std::function<void()>& on_wait);
  Turn(Turn&&) noexcept = default;
  Turn& operator=(Turn&&) = delete;
  /// Removes the file, and gives the turn to the next.
  ~Turn();

 private:
  Turn(std::filesystem::path path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace runner
