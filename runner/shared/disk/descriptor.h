#pragma once

#include <filesystem>
#include <fstream>
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

/// Ensures that only one process at a time creates a result that several processes may need. It
/// locks a file next to the result (flock(2)). The lock is released when the process exits, for any
/// reason. A caller that had to wait then checks whether another process has created the result.
class Turn {
 public:
  /// Creates `file` and waits for this process's turn. Calls `on_wait` once if another process has
  /// the turn. Calls `is_canceled` several times a second and returns nullopt once it returns
  /// true. Also returns nullopt if the file cannot be created or its file system does not support
  /// locks; each process then does the work itself.
  static std::optional<Turn> take(const std::filesystem::path& file,
                                  const std::function<bool()>& is_canceled,
                                  const std::function<void()>& on_wait);
  Turn(Turn&&) noexcept = default;
  Turn& operator=(Turn&&) = delete;
  /// Removes the file and passes the turn to the next waiter.
  ~Turn();

 private:
  Turn(std::filesystem::path path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::filesystem::path path_;
  Descriptor file_;
};

/// Opens a file for reading. The stream is in a failed state if the file does not exist or is a
/// folder, a pipe or a device, since reading from those could block or never end.
std::ifstream open_regular(const std::filesystem::path& path,
                           std::ios::openmode mode = std::ios::in);

}  // namespace runner
