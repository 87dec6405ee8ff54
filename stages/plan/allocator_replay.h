#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "stages/machine/allocator_settings.h"

namespace stages {

/// The settings of LibTorch's caching allocator for GPUs.
struct AllocatorRules {
  bool expandable_segments = false;
  std::int64_t max_split_size =
      std::numeric_limits<std::int64_t>::max();  ///< bytes; larger blocks are never split
  std::int64_t roundup_power2_divisions = 0;     ///< size steps between powers of two; 0: none
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();  ///< bytes of device memory
};

/// Returns the rules for `settings`, with LibTorch's default for each unset setting.
AllocatorRules rules_of(const AllocatorSettings& settings);

/// Simulates, without allocating, how LibTorch 2.11's caching allocator manages a GPU's memory. It
/// rounds sizes up to multiples of 512 bytes, finds the best fit in one of two pools (up to 1 MiB,
/// and above), and splits and merges blocks. It requests segments from the device: 2 MiB for small
/// blocks, 20 MiB for blocks below 10 MiB, and otherwise the block's size rounded up to a multiple
/// of 2 MiB. Expandable segments grow by 2 MiB and 20 MiB instead. If the device has no more
/// memory, it returns unused segments and tries once more.
///
///   AllocatorReplay replay({.limit = 8 << 30});
///   for (const TraceEvent& event : trace.events()) {
///     if (!event.is_birth) replay.free(event.storage);
///     else if (!replay.allocate(event.storage, bytes)) return "out of memory";
///   }
///   use(replay.peak_reserved());
///
/// It models a single stream. From an expandable segment, it returns only the unused end.
class AllocatorReplay {
 public:
  explicit AllocatorReplay(const AllocatorRules& rules) : rules_(rules) {}
  AllocatorReplay(const AllocatorReplay&) = delete;
  AllocatorReplay& operator=(const AllocatorReplay&) = delete;

  /// Allocates a block under a name that no live block uses: an index, such as a storage's, since
  /// the replay keeps an entry for each name up to the largest. Returns false if the device has no
  /// memory left; in that case, only retries() changes. Allocating zero bytes creates no block.
  bool allocate(std::size_t name, std::int64_t bytes);
  /// Frees the block called `name`; does nothing if there is none.
  void free(std::size_t name);
  /// Returns unused segments to the device.
  void empty_cache();

  std::int64_t reserved() const { return reserved_; }
  std::int64_t peak_reserved() const { return peak_reserved_; }
  std::int64_t allocated() const { return allocated_; }  ///< rounded bytes of the blocks in use
  std::int64_t peak_allocated() const { return peak_allocated_; }
  std::int64_t segments() const { return segments_; }  ///< segments requested so far
  std::int64_t retries() const {
    return retries_;
  }  ///< number of times unused segments were returned before a second try

 private:
  /// A piece of a segment, linked to its neighbors in memory.
  struct Block {
    std::int64_t address = 0, size = 0;
    bool is_used = false, is_small = false;
    Block *before = nullptr, *after = nullptr;
  };
  /// Unused blocks by size, then by address.
  using Pool = std::vector<Block*>;

  static Pool::iterator place_in(Pool& pool, const Block& block);
  static void insert(Pool& pool, Block* block) { pool.insert(place_in(pool, *block), block); }
  static void erase(Pool& pool, Block* block) { pool.erase(place_in(pool, *block)); }

  std::int64_t rounded(std::int64_t bytes) const;
  Pool& pool(bool is_small) { return is_small ? small_ : large_; }
  Block*& end_of(bool is_small) { return is_small ? small_end_ : large_end_; }
  Block* best_fit(bool is_small, std::int64_t size);
  Block* from_device(bool is_small, std::int64_t size);
  Block* new_segment(bool is_small, std::int64_t size);
  Block* grown_segment(bool is_small, std::int64_t size);
  bool reserve(std::int64_t bytes);
  bool is_split(const Block& block, std::int64_t size) const;
  void split(Block& block, std::int64_t size);
  Block* joined(Block* block, Block* neighbor);
  Block* make(const Block& block);
  void give_back_end(bool is_small);

  const AllocatorRules rules_;
  std::deque<Block> blocks_;
  std::vector<Block*> spare_;                          // elements of blocks_ that are no block now
  Pool small_, large_;                                 // the unused blocks
  Block *small_end_ = nullptr, *large_end_ = nullptr;  // the last blocks of the expandable segments
  std::vector<Block*> used_;                           // by name; null: no such block
  std::int64_t next_address_ = 0;
  std::int64_t reserved_ = 0, peak_reserved_ = 0, allocated_ = 0, peak_allocated_ = 0;
  std::int64_t segments_ = 0, retries_ = 0;
};

}  // namespace stages
