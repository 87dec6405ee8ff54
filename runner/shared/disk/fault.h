#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runner/shared/disk/storage.h"

namespace runner {

/// One thing that goes wrong, written as "point:n" or "point:n:deed", e.g. "rename:2:kill".
struct Fault {
  /// What is counted: calls of a Storage, where free_bytes() is asked and not counted; steps of a
  /// training, before they are computed; events of a worker, before they are sent; kAny all of
  /// these. kAllocation: blocks of memory of the CPU's tensors, which can only fail.
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
    kKill,      ///< the program is killed just before it; a write is half done by then
    kKillBoth,  ///< and its parent before it: retort and its worker
    kFail,  ///< this call alone fails, with EIO; a step throws, an event finds nobody who listens
    kLose,  ///< a step fails as one does whose GPU is lost
    kFull,  ///< from this call on the disk is full: half a write is done, and then nothing more is
            ///< made
  };
  Point point = Point::kAny;
  std::int64_t count = 1;  ///< the call that it happens to, from 1
  Action action = Action::kKill;
};

/// Reads a fault: points create, write, sync, rename, folder, remove, step, event, alloc, any;
/// deeds kill (when none is written), kill_both, fail, lose, full. Throws std::invalid_argument
/// saying what is wrong with `text`.
Fault fault_from(std::string_view text);

/// The same where `text` may begin with the name of the program that is meant,
/// "retort-worker/step:3"; nullopt where another than `program` is.
std::optional<Fault> fault_for(std::string_view program, std::string_view text);

/// A storage in which one fault happens.
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

  /// Counts a point that is no call of a storage. What is to happen there: kFail or kLose.
  std::optional<Fault::Action> reach(Fault::Point point);

 private:
  bool strikes(Fault::Point point);
  bool fails(Fault::Point point);

  Storage& under_;
  const Fault fault_;
  std::int64_t counted_ = 0;
  bool is_full_ = false;
};

/// Something that is no call of a storage and may go wrong all the same.
enum class Milestone { kStep, kEvent };

/// Says that a step or an event comes next. It and the next are in storage.cpp, which alone knows
/// whether faults are obeyed. What RETORT_FAULT wants to happen to it, kFail or kLose; it may end
/// the program.
std::optional<Fault::Action> reach(Milestone milestone);

/// The block of tensors' memory that RETORT_FAULT wants to be refused, counted from 1; 0: none.
std::int64_t allocation_to_refuse();

}  // namespace runner
