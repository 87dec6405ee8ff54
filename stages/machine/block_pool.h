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

/// A set of bytes, kept as the ranges that it is made of.
class PageSet {
 public:
  std::int64_t bytes() const { return bytes_; }
  /// The parts of `range` that are in the set, or are not, by their addresses.
  std::vector<AddressRange> present(AddressRange range) const;
  std::vector<AddressRange> missing(AddressRange range) const;
  void add(AddressRange range);
  void remove(AddressRange range);

 private:
  std::map<std::int64_t, std::int64_t> ranges_;  // the end by the beginning; no two touch
  std::int64_t bytes_ = 0;
};

/// Hands out the addresses of a range in blocks: the smallest unused block that is large enough, of
/// several the one with the lowest address; what it has too much is split off, and a block that is
/// freed is joined with the unused blocks on both sides. So it grows from its beginning, and where
/// a block lies depends on the calls before alone.
class Arena {
 public:
  explicit Arena(AddressRange addresses);

  /// Where a block of `bytes`, at least one, begins; nullopt: no unused block is large enough.
  std::optional<std::int64_t> allocate(std::int64_t bytes);
  /// The block that begins there, which must be in use. Returns its bytes.
  std::int64_t free(std::int64_t begin);
  /// The unused blocks, by their addresses. No two touch.
  std::vector<AddressRange> unused() const;

 private:
  using Unused = std::pair<std::int64_t, std::int64_t>;  // bytes and beginning

  void add_unused(AddressRange block);
  AddressRange take_unused(std::int64_t begin);

  std::set<Unused> by_size_;
  std::map<std::int64_t, std::int64_t> begins_,
      ends_;  // of the unused: bytes by the beginning, and by the end
  std::map<std::int64_t, std::int64_t> used_;  // bytes by the beginning
};

/// Whose a block is: what a step takes lies where its own blocks before it say, whatever other
/// threads do beside it.
enum class Lane { kStep, kBeside };

/// Where a pool has its memory from. The ranges are of whole pages.
class Pages {
 public:
  virtual ~Pages() = default;
  /// Makes a range usable; false: there is no memory for it.
  virtual bool take(AddressRange range) = 0;
  virtual void give_back(AddressRange range) = 0;
};

/// The rules by which the CPU's tensors get their memory, over numbers alone: cpu_pool.h runs them,
/// and the plan of a run replays them.
///
///   BlockPool pool;
///   const std::optional<std::int64_t> address = pool.allocate(1000);  // nullopt: out of memory
///   pool.free(*address);
///   use(pool.peak_reserved());
///
/// A block is a multiple of 64 bytes, of an arena (arena.h): a step has one for blocks up to 64 KiB
/// and one for larger ones, what is beside it another. The pages that a block needs are reserved
/// when it is handed out and stay so until empty_cache() gives back those that lie in unused blocks
/// alone. A limit on what is reserved is held to by that: a block for which it leaves no pages is
/// tried once more after what is unused was given back, and then refused. Addresses cost nothing,
/// so that this never moves a block: where blocks lie does not depend on the limit.
class BlockPool {
 public:
  static constexpr std::int64_t kGrain = 64, kPage = 4096;
  static constexpr std::int64_t kSmall = 64 << 10;  ///< bytes of the largest small block

  /// `addresses`: bytes of all arenas together. `pages` is borrowed; null: of numbers there are
  /// enough.
  explicit BlockPool(std::int64_t addresses = std::int64_t{1} << 60, Pages* pages = nullptr);

  /// A block of `bytes`; nullopt: the limit, the pages or the addresses do not hold it, and nothing
  /// is changed but what is unused and given back.
  std::optional<std::int64_t> allocate(std::int64_t bytes, Lane lane = Lane::kStep);
  void free(std::int64_t address);
  void empty_cache();

  /// Bytes that may be reserved; what is in use beyond that stays. nullopt: any.
  void set_limit(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> limit() const { return limit_; }
  /// The smallest limit under which the block that was refused last would have been given; where it
  /// was not for the limit that it was refused, no more than the limit.
  std::int64_t wanted_limit() const { return wanted_limit_; }

  std::int64_t allocated() const {
    return allocated_;
  }  ///< in blocks that are in use, rounded as they are
  std::int64_t reserved() const;
  std::int64_t reserved(Lane lane) const;
  std::int64_t peak_reserved() const { return peak_reserved_; }
  std::int64_t retries() const {
    return retries_;
  }  ///< blocks that were had after others were given back

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
