#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kernels_on_cpu {

/// The origin of an access: a thread of a block of a launch, and the number of barriers that the
/// block has passed. Threads and blocks are numbered with x running fastest.
struct Turn {
  static constexpr std::int64_t kSeveral = -1;  ///< for `block` and `thread`

  std::uint64_t launch = 0;  ///< from 1; 0: never
  std::int64_t block = 0, barriers = 0, thread = 0;
};

struct Access {
  const void* address;
  std::size_t size;
  bool is_write;
};

/// Memory that kernels may access. kGlobal: all blocks; kShared: each block has its own, which
/// starts unwritten; kConstant: is only read.
enum class MemoryKind { kGlobal, kShared, kConstant };
struct MemoryRange {
  std::string name;
  const void* begin;
  std::size_t size;
  MemoryKind kind;
  bool is_written;  ///< has contents before the first launch
};

/// Remembers who has accessed each byte of the memory that kernels may access. Finds accesses out
/// of bounds, reads of bytes that nothing has written, and races: two accesses, one of them a
/// write, of two blocks of a launch, or of two threads of a block without a barrier between them.
/// Whether a race is found does not depend on the order in which the threads run.
class Shadow {
 public:
  void add(MemoryRange range);
  void remove(const void* begin);

  /// Records an access. Returns its fault, such as "thread 3 of block 0 reads …".
  std::optional<std::string> see(const Access& access, const Turn& now);

 private:
  struct Byte {
    Turn write, read;
    bool is_written;
  };
  struct Shadowed {
    MemoryRange range;
    std::vector<Byte> bytes;
  };
  Shadowed* find(const Access& access);
  std::string out_of_bounds(const Access& access) const;

  std::map<std::uintptr_t, Shadowed> memory_;  // by its first address
};

/// The shadow of this process, in which the callbacks of kernels look up each access.
Shadow& shadow();

}  // namespace kernels_on_cpu
