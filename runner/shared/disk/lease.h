#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// A file that identifies the process working in a folder, which several machines may share. The
/// file `lease.7` is the seventh lease taken. The one with the largest number is the current lease
/// and is never removed. Only one process can create the file with the next number; it then holds
/// the lease, and writes a heartbeat to it every few seconds.
///
/// If the holder runs on this system, which has not rebooted since, and its processes are visible
/// here, the process itself is checked. Any other holder is presumed gone once `looks` consecutive
/// checks have found no heartbeat. Clocks are not compared.
class Lease {
 public:
  /// The prefix of the names of lease files.
  static constexpr std::string_view kName = "lease.";

  /// The process that holds a lease.
  struct Holder {
    bool is_held = true;  ///< false: the lease was released
    std::string host;
    std::string boot;     ///< boot_id of the system
    std::string space;    ///< the PID namespace of its process (containers have their own)
    std::string started;  ///< start time of the process, to distinguish processes with the same PID
    std::int64_t process = 0;
  };

  struct Options {
    std::chrono::milliseconds beat{5000};  ///< time between heartbeats, and between checks for them
    int looks = 6;  ///< checks without a heartbeat before a holder is presumed gone
    std::function<void(std::chrono::milliseconds)> wait =
        {};  ///< empty: sleeps, until a signal asks the process to exit
    std::function<void(const std::string& line)> on_wait =
        {};  ///< called once with the reason for waiting
    /// Called on another thread when another process has taken over the lease because this process
    /// stopped writing heartbeats. If empty, the program exits.
    std::function<void(const std::string& holder)> on_lost = {};
  };

  /// The result of take(): a lease, or its current holder, or an error.
  struct Taken;
  /// Takes the lease of `folder`, which must exist. Waits for heartbeats if necessary.
  static Taken take(const std::filesystem::path& folder, Options options);

  /// Returns whether the holder of the lease on `folder` is alive; nullopt if there is no holder.
  /// This is a single check and therefore less reliable. A holder on another machine counts as
  /// alive if its file was written within the last two minutes. `is_free_here` is true if no
  /// process on this machine holds the lock (folder_lock.h).
  static std::optional<bool> is_at_work(const std::filesystem::path& folder, bool is_free_here);
  /// Returns "process 12 on 'node7'"; empty if there is no holder.
  static std::string holder_of(const std::filesystem::path& folder);
  /// Records that this process works for the holder. The lease is not taken over while this process
  /// is alive, even if the holder has exited. Returns false if there is no holder or the record
  /// cannot be written.
  static bool join(const std::filesystem::path& folder);

  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  /// Releases the lease.
  ~Lease();

 private:
  class Beating;
  explicit Lease(std::unique_ptr<Beating> beating);
  std::unique_ptr<Beating> beating_;
};

struct Lease::Taken {
  std::optional<Lease> lease;
  std::string holder;  ///< the holder, if another process holds the lease
  int error = 0;       ///< errno, if the file could not be created
};

}  // namespace runner
