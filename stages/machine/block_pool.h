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
  /// The parts of `range` that are, or are not, in the set, in address order.
  std::vector<AddressRange> present(AddressRange range) const;
  std::vector<AddressRange> missing(AddressRange range) const;
  void add(AddressRange range);
  void remove(AddressRange range);

 private:
  std::map<std::int64_t, std::int64_t> ranges_;  // end by beginning; no two touch
  std::int64_t bytes_ = 0;
};

/// Allocates blocks from an address range, best fit: the smallest unused block that is large enough
/// or, of several, the one at the lowest address. The excess is split off; a freed block is merged
/// with the unused blocks on both sides. So an arena grows from its beginning, and the place of a
/// block depends only on earlier calls.
class Arena {
 public:
  explicit Arena(AddressRange addresses);

  /// The beginning of a block of `bytes`, at least one; nullopt: no unused block is large enough.
  std::optional<std::int64_t> allocate(std::int64_t bytes);
  /// Frees the block that begins there, which must be in use. Returns its bytes.
  std::int64_t free(std::int64_t begin);
  /// The unused blocks, in address order. No two touch.
  std::vector<AddressRange> unused() const;

 private:
  using Unused = std::pair<std::int64_t, std::int64_t>;  // bytes and beginning

  void add_unused(AddressRange block);
  AddressRange take_unused(std::int64_t begin);

  std::set<Unused> by_size_;
  std::map<std::int64_t, std::int64_t> begins_,
      ends_;                                   // of unused blocks: bytes by beginning, and by end
  std::map<std::int64_t, std::int64_t> used_;  // bytes by beginning
};

/// The owner of a block. The place of a step's blocks depends only on the step's earlier blocks,
/// whatever other threads allocate at the same time.
enum class Lane { kStep, kBeside };

/// The source of a pool's memory. Ranges are whole pages.
class Pages {
 public:
  virtual ~Pages() = default;
  /// Makes a range usable; false: out of memory.
  virtual bool take(AddressRange range) = 0;
  virtual void give_back(AddressRange range) = 0;
};

/// The allocation rules for CPU tensors, on numbers only: cpu_pool.h executes them, and a run's
/// plan replays them.
///
///   BlockPool pool;
///   const std::optional<std::int64_t> address = pool.allocate(1000);  // nullopt: out of memory
///   pool.free(*address);
///   use(pool.peak_reserved());
///
/// A block is a multiple of 64 bytes, from an Arena: a step has one arena for blocks up
/// to 64 KiB and one for larger ones; other blocks have another. The pages of a block are reserved
/// when it is handed out. They stay reserved until empty_cache() returns pages that lie only in
/// unused blocks. A limit on reserved bytes is enforced in the same way: if it leaves no pages for
/// a block, unused pages are returned, the block is tried once more, and then refused. Addresses
/// cost nothing, so the place of a block does not depend on the limit.
class BlockPool {
 public:
  static constexpr std::int64_t kGrain = 64, kPage = 4096;
  static constexpr std::int64_t kSmall = 64 << 10;  ///< bytes of the largest small block

  /// `addresses`: bytes of all arenas together. `pages` is borrowed; null: for computing with
  /// numbers only.
  explicit BlockPool(std::int64_t addresses = std::int64_t{1} << 60, Pages* pages = nullptr);

  /// A block of `bytes`; nullopt: the limit, the pages or the addresses do not suffice. Then
  /// nothing changes, except that unused pages may have been returned.
  std::optional<std::int64_t> allocate(std::int64_t bytes, Lane lane = Lane::kStep);
  void free(std::int64_t address);
  void empty_cache();

  /// The limit of reserved bytes; what is in use beyond it stays. nullopt: none.
  void set_limit(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> limit() const { return limit_; }
  /// The smallest limit under which the last refused block would have been granted; if it was
  /// refused for another reason, no more than the limit.
  std::int64_t wanted_limit() const { return wanted_limit_; }

  std::int64_t allocated() const {
    return allocated_;
  }  ///< in blocks that are in use, with their rounding
  std::int64_t reserved() const;
  std::int64_t reserved(Lane lane) const;
  std::int64_t peak_reserved() const { return peak_reserved_; }
  std::int64_t retries() const {
    return retries_;
  }  ///< blocks that were granted after unused pages were returned

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
