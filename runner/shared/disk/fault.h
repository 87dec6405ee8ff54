#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runner/shared/disk/storage.h"

namespace runner {

/// One injected fault, written as "point:n" or "point:n:action", e.g. "rename:2:kill".
struct Fault {
  /// The events that are counted: calls to a Storage other than free_bytes(); training steps,
  /// before they are computed; worker events, before they are sent. kAny counts all of these.
  /// kAllocation counts allocations for CPU tensors, which can only be made to fail.
  enum class Point {
    kCreate,
    kWrite,
    kSync,
    kRename,
    kFolder,
    kRemove,
    kStep,
    kEvent,
    kAllocation,
    kAny
  };
  enum class Action {
    kKill,      ///< kills the program just before the call, or halfway through a write
    kKillBoth,  ///< kills its parent first, then the program: retort, then its worker
    kFail,      ///< only this call fails, with EIO; a step throws, an event cannot be sent
    kLose,      ///< the step fails as if its GPU were lost
    kFull,      ///< the disk is full from this call on: a write is half done, then nothing more is
                ///< written
  };
  Point point = Point::kAny;
  std::int64_t count = 1;  ///< the call at which the fault occurs (1-based)
  Action action = Action::kKill;
};

/// Parses a fault. Points: create, write, sync, rename, folder, remove, step, event, alloc, any.
/// Actions: kill (the default), kill_both, fail, lose, full. If `text` is not valid, throws
/// std::invalid_argument with the reason.
Fault fault_from(std::string_view text);

/// Parses a fault that may be prefixed with the program to which it applies:
/// "retort-worker/step:3", or "retort-worker-1/step:3" for the worker of rank 1. Returns nullopt if
/// that program is not `program`.
std::optional<Fault> fault_for(std::string_view program, std::string_view text);

/// A storage that injects one fault.
class FaultyStorage final : public Storage {
 public:
  /// `under` is borrowed.
  FaultyStorage(Storage& under, Fault fault) : under_(under), fault_(fault) {}

  int create(const std::filesystem::path& path) override;
  ssize_t write(int file, const char* data, std::size_t size) override;
  int sync(int file) override;
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  int make_folder(const std::filesystem::path& path) override;
  int remove(const std::filesystem::path& path) override;
  std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path) override;

  /// Counts a point that is not a call to a Storage. Returns the action to take there, kFail or
  /// kLose, or nullopt if there is none.
  std::optional<Fault::Action> reach(Fault::Point point);

 private:
  bool strikes(Fault::Point point);
  bool fails(Fault::Point point);

  Storage& under_;
  const Fault fault_;
  std::int64_t counted_ = 0;
  bool is_full_ = false;
};

/// A point outside a Storage at which a fault can be injected.
enum class Milestone { kStep, kEvent };

/// Announces that a step or an event is about to happen. Returns the fault that RETORT_FAULT
/// injects there, kFail or kLose, or nullopt; may end the program. This function and the next are
/// defined in storage.cpp, the only file that knows whether faults are enabled.
std::optional<Fault::Action> reach(Milestone milestone);

/// Returns the 1-based number of the CPU tensor allocation that RETORT_FAULT causes to fail; 0 if
/// none.
std::int64_t allocation_to_refuse();

}  // namespace runner
