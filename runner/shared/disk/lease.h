#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// A lease says, in a file of a folder that machines may share, which process works there. The file
/// `lease.7` is the seventh that was taken; the one with the largest number counts, and is never
/// removed, so that whoever makes the next number, which only one process can, has it. Its holder
/// gives a sign of life in it every few seconds.
///
/// A holder whose boot of the system and whose processes we see is asked for by its process; any
/// other is taken for gone when it has given no sign of life at so many looks in a row. Clocks are
/// not compared.
class Lease {
 public:
  /// What the names of its files begin with.
  static constexpr std::string_view kName = "lease.";

  /// Who holds one.
  struct Holder {
    bool is_held = true;  ///< else it was given back
    std::string host;
    std::string boot;   ///< of the system, boot_id
    std::string space;  ///< in which the number of its process counts (containers have their own)
    std::string
        started;  ///< when it started, as its system counts: numbers of processes are used again
    std::int64_t process = 0;
  };

  struct Options {
    std::chrono::milliseconds beat{
        5000};      ///< between two signs of life, and between two looks for them
    int looks = 6;  ///< without a sign of life, until a holder is taken for gone
    std::function<void(std::chrono::milliseconds)> wait =
        {};  ///< empty: sleeps, until a signal asks for the end
    std::function<void(const std::string& line)> on_wait =
        {};  ///< told once why these looks are waited for
    /// Another process has taken it over, since this one gave no sign of life; in a thread. Empty:
    /// the program ends.
    std::function<void(const std::string& holder)> on_lost = {};
  };

  /// What came of take(): a lease, or who has it, or why there can be none.
  struct Taken;
  /// That of `folder`, which exists. Waits for signs of life where that has to be.
  static Taken take(const std::filesystem::path& folder, Options options);

  /// Whether the holder of the lease on `folder` is at work, at one look and so less surely;
  /// nullopt where there is none. One on another machine is if its file was written to within two
  /// minutes. `is_free_here`: nobody holds the lock of this machine (folder_lock.h).
  static std::optional<bool> is_at_work(const std::filesystem::path& folder, bool is_free_here);
  /// "process 12 on 'node7'"; empty where nobody holds it.
  static std::string holder_of(const std::filesystem::path& folder);
  /// Notes that this process works for the holder: while it lives the lease is not taken over,
  /// whatever became of the holder. False where nobody holds it, or that cannot be written.
  static bool join(const std::filesystem::path& folder);

  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  /// Gives it back.
  ~Lease();

 private:
  class Beating;
  explicit Lease(std::unique_ptr<Beating> beating);
  std::unique_ptr<Beating> beating_;
};

struct Lease::Taken {
  std::optional<Lease> lease;
  std::string holder;  ///< where somebody else has it
  int error = 0;       ///< errno, where the file could not be made
};

}  // namespace runner
