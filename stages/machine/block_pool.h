#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace stages {

/// The bytes from `begin` up to `end`.
struct AddressRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t bytes() const { return end - begin; }
  bool operator==(const AddressRange&) const = default;
};

/// A set of bytes, stored as disjoint ranges.
class PageSet {
 public:
  std::int64_t bytes() const { return bytes_; }
  /// The parts of `range` that are in the set (present) or are not (missing), in address order.
  std::vector<AddressRange> present(AddressRange range) const;
  std::vector<AddressRange> missing(AddressRange range) const;
  void add(AddressRange range);
  void remove(AddressRange range);

 private:
  std::map<std::int64_t, std::int64_t> ranges_;  // maps begin to end; no two ranges touch
  std::int64_t bytes_ = 0;
};

/// Allocates blocks from an address range by best fit: the smallest unused block that is large
/// enough, at the lowest address if there are several. The rest of the block is split off, and a
/// freed block is merged with unused neighbors. An arena therefore grows from its beginning, and a
/// block's address depends only on earlier calls.
class Arena {
 public:
  explicit Arena(AddressRange addresses);

  /// Returns the address of a new block of `bytes` bytes (at least 1); nullopt if no unused block
  /// is large enough.
  std::optional<std::int64_t> allocate(std::int64_t bytes);
  /// Frees the block at `begin`, which must be in use. Returns its size in bytes.
  std::int64_t free(std::int64_t begin);
  /// Returns the unused blocks in address order. No two touch.
  std::vector<AddressRange> unused() const;

 private:
  using Unused = std::pair<std::int64_t, std::int64_t>;  // bytes and begin

  void add_unused(AddressRange block);
  AddressRange take_unused(std::int64_t begin);

  std::set<Unused> by_size_;
  std::map<std::int64_t, std::int64_t> begins_,
      ends_;                                   // unused blocks: begin to bytes, end to bytes
  std::map<std::int64_t, std::int64_t> used_;  // begin to bytes
};

/// The owner of a block: a training step, or threads that work in parallel with it. The addresses
/// of a step's blocks depend only on its earlier blocks, not on what other threads allocate at the
/// same time.
enum class Lane { kStep, kBeside };

/// The source of a pool's memory. All ranges are whole pages.
class Pages {
 public:
  virtual ~Pages() = default;
  /// Makes a range usable. Returns false if memory has run out.
  virtual bool take(AddressRange range) = 0;
  virtual void give_back(AddressRange range) = 0;
};

/// The allocation rules for CPU tensors, as pure address arithmetic. CpuPool (cpu_pool.h) applies
/// them to memory, and a run's plan replays them.
///
///   BlockPool pool;
///   const std::optional<std::int64_t> address = pool.allocate(1000);  // nullopt: out of memory
///   pool.free(*address);
///   use(pool.peak_reserved());
///
/// The size of a block is a multiple of 64 bytes. A step has one arena for blocks up to 64 KiB and
/// one for larger blocks; blocks of other threads come from a third. A block's pages are reserved
/// when it is allocated, and stay reserved until empty_cache() returns the pages that contain only
/// unused blocks. If a limit on reserved bytes leaves no room for a block, unused pages are
/// returned and the allocation is retried once; if that fails, it is refused. Addresses cost
/// nothing, so a block's address does not depend on the limit.
class BlockPool {
 public:
  static constexpr std::int64_t kGrain = 64, kPage = 4096;
  static constexpr std::int64_t kSmall = 64 << 10;  ///< bytes of the largest small block

  /// `addresses` is the total size of all arenas in bytes. `pages` is borrowed; if null, only
  /// addresses are computed.
  explicit BlockPool(std::int64_t addresses = std::int64_t{1} << 60, Pages* pages = nullptr);

  /// Returns the address of a new block; nullopt if the limit is too low, or if pages or addresses
  /// have run out. In that case, nothing changes, except that unused pages may be returned.
  std::optional<std::int64_t> allocate(std::int64_t bytes, Lane lane = Lane::kStep);
  void free(std::int64_t address);
  void empty_cache();

  /// Limits the reserved bytes; blocks in use remain, even if they exceed the limit. nullopt: no
  /// limit.
  void set_limit(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> limit() const { return limit_; }
  /// Returns the smallest limit under which the last refused block would have been allocated. A
  /// result at or below the current limit means that memory or addresses ran out instead.
  std::int64_t wanted_limit() const { return wanted_limit_; }

  std::int64_t allocated() const {
    return allocated_;
  }  ///< bytes of the blocks in use, including rounding
  std::int64_t reserved() const;
  std::int64_t reserved(Lane lane) const;
  std::int64_t peak_reserved() const { return peak_reserved_; }
  std::int64_t retries() const {
    return retries_;
  }  ///< number of allocations that succeeded only after unused pages were returned

 private:
  struct Part {
    AddressRange addresses;
    Arena arena;
    PageSet reserved;
  };
  enum Name : std::size_t { kSmallPart, kLargePart, kBesidePart, kParts };

  Part& part_of(std::int64_t address);
  bool reserve(Part& part, AddressRange block);

  std::array<Part, kParts> parts_;
  Pages* const pages_;
  std::optional<std::int64_t> limit_;
  std::int64_t wanted_limit_ = 0, allocated_ = 0, peak_reserved_ = 0, retries_ = 0;
};

}  // namespace stages
