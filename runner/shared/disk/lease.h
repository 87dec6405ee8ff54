#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// A file in a folder that machines may share. It says which process works there. The file
/// `lease.7` is the seventh lease taken. The one with the largest number counts and is never
/// removed, so the process that creates the next number, which only one process can, holds the
/// lease. The holder gives a sign of life in it every few seconds.
///
/// If we can see the holder's processes, on the same boot of the system, we check its process
/// directly. Any other holder is presumed gone when it has given no sign of life at `looks` checks
/// in a row. Clocks are not compared.
class Lease {
 public:
  /// The prefix of its file names.
  static constexpr std::string_view kName = "lease.";

  /// The process that holds a lease.
  struct Holder {
    bool is_held = true;  ///< false: it was released
    std::string host;
    std::string boot;     ///< boot_id of the system
    std::string space;    ///< the PID namespace of its process (containers have their own)
    std::string started;  ///< start time of the process as its system counts it: PIDs are reused
    std::int64_t process = 0;
  };

  struct Options {
    std::chrono::milliseconds beat{
        5000};      ///< between two signs of life, and between two checks for them
    int looks = 6;  ///< without a sign of life, until a holder is presumed gone
    std::function<void(std::chrono::milliseconds)> wait =
        {};  ///< empty: sleeps, until a signal asks the process to end
    std::function<void(const std::string& line)> on_wait =
        {};  ///< called once with the reason for waiting
    /// Called in a thread when another process has taken the lease over because this one gave no
    /// sign of life. Empty: the program ends.
    std::function<void(const std::string& holder)> on_lost = {};
  };

  /// The result of take(): a lease, or its current holder, or why there can be none.
  struct Taken;
  /// Takes the lease of `folder`, which exists. Waits for signs of life if necessary.
  static Taken take(const std::filesystem::path& folder, Options options);

  /// Whether the holder of the lease on `folder` is alive, by a single and so less reliable check;
  /// nullopt if there is no holder. A holder on another machine counts as alive if its file was
  /// written within the last two minutes. `is_free_here`: no process holds the lock of this machine
  /// (folder_lock.h).
  static std::optional<bool> is_at_work(const std::filesystem::path& folder, bool is_free_here);
  /// "process 12 on 'node7'"; empty if there is no holder.
  static std::string holder_of(const std::filesystem::path& folder);
  /// Notes that this process works for the holder: while it lives the lease is not taken over, even
  /// if the holder has ended. False if there is no holder, or the note cannot be written.
  static bool join(const std::filesystem::path& folder);

  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  /// Releases it.
  ~Lease();

 private:
  class Beating;
  explicit Lease(std::unique_ptr<Beating> beating);
  std::unique_ptr<Beating> beating_;
};

struct Lease::Taken {
  std::optional<Lease> lease;
  std::string holder;  ///< if another process has it
  int error = 0;       ///< errno, if the file could not be created
};

}  // namespace runner
