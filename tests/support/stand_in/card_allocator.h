#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <c10/core/CachingDeviceAllocator.h>

#include "tests/support/stand_in/address_space.h"
#include "tests/support/stand_in/streams.h"

namespace stand_in {

inline constexpr c10::DeviceIndex kCards = 2;

/// The allocator of all GPUs, which follows the rules of LibTorch's caching allocator: blocks of
/// whole 512 bytes, of one stream each, from segments of 2 MiB (small blocks), of 20 MiB, or of a
/// large block's own size; the best fit, split and merged. If a limit is reached, unused segments
/// are returned and the block is tried once more. Expandable segments are ordinary ones here.
class CardAllocator final : public c10::DeviceAllocator {
 public:
  using Tracker = std::function<void(const c10::CachingDeviceAllocator::TraceEntry&)>;

  CardAllocator();

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  bool initialized() override;
  void emptyCache(c10::MempoolId_t = {0, 0}) override;
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override;

  void initialize();
  double share(c10::DeviceIndex device) const;
  void set_share(double share, c10::DeviceIndex device);
  void track(Tracker tracker);

  /// Refuses the `nth` block from now, once; 1 is the next block, 0 refuses none.
  void refuse(std::int64_t nth);
  std::int64_t blocks_allocated() const { return blocks_allocated_; }

  /// The bytes of each card, and how many of them a driver's context takes.
  static constexpr std::size_t kBytes = std::size_t{16} << 30, kContext = std::size_t{300} << 20;

  /// Keeps the blocks that are allocated on a stream reserved, until it is released.
  void keep(c10::Stream stream);
  void let_go(c10::Stream stream);
  /// Returns the number of the stream on which the memory at an address was allocated, whether it
  /// is used or not; -1 if there is no block.
  int stream_of(const void* data) const;

  const AddressSpace& addresses(c10::DeviceIndex device) const;
  /// The uses of the block at an address; null if there is none.
  Uses* uses_of(const void* data);

 private:
  struct Block {
    char* begin = nullptr;
    std::size_t size = 0, requested = 0;
    bool is_used = false, is_small = false;
    c10::Stream stream{c10::Stream::DEFAULT, c10::Device(c10::kCUDA, 0)};
    Block *before = nullptr, *after = nullptr;
    Uses uses;
    std::vector<c10::Stream> other_streams;  // from recordStream()
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->begin < b->begin;
    }
  };
  using Pool = std::set<Block*, BySize>;
  struct Card {
    AddressSpace addresses{4 * kBytes};
    std::map<std::pair<int, bool>, Pool> unused;  // by stream and size class
    std::map<char*, std::unique_ptr<Block>> blocks;
    double share = 1;
    c10::CachingDeviceAllocator::DeviceStats stats;
  };

  static void free(void* data);
  Block* best_fit(Card& card, c10::Stream stream, bool is_small, std::size_t size);
  Block* new_segment(Card& card, c10::Stream stream, bool is_small, std::size_t size);
  Block* with_retry(Card& card, c10::Stream stream, bool is_small, std::size_t size);
  void split(Card& card, Block& block, std::size_t size);
  static const Block* block_at(const Card& card, const void* data);
  void release(Card& card, Block* block);
  Block* joined(Card& card, Block* first, Block* second);
  void return_segments(Card& card);
  void trace(c10::CachingDeviceAllocator::TraceEntry::Action action, std::size_t card,
             const Block& block);

  std::array<Card, kCards> cards_;
  std::set<int> kept_, graphs_;  // streams; graphs_ includes those of past graphs, since replays
                                 // order their work
  std::vector<Tracker> trackers_;
  bool is_initialized_ = false;
  std::int64_t until_refusal_ = 0, blocks_allocated_ = 0;
};

CardAllocator& card_allocator();

}  // namespace stand_in
