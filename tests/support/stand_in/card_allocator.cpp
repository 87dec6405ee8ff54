#include "tests/support/stand_in/card_allocator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include <c10/core/AllocatorConfig.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "tests/support/stand_in/faults.h"

namespace stand_in {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingDeviceAllocator::TraceEntry;

constexpr std::size_t kGrain = 512, kSmall = 1 << 20, kSmallSegment = 2 << 20,
                      kMediumSegment = 20 << 20, kLarge = 10 << 20, kRounding = 2 << 20;
constexpr std::size_t kPoisoned = 1 << 20;  // at most this many bytes of a new block are filled
                                            // with NaN (-1 in integers)
constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::size_t rounded(std::size_t bytes) {
  if (bytes < kGrain) return kGrain;
  const std::size_t divisions = Config::roundup_power2_divisions(bytes);
  if (divisions > 1 && bytes > kGrain * divisions) {
    const std::size_t floor = std::bit_floor(bytes), step = floor / divisions;
    return floor + (bytes - floor + step - 1) / step * step;
  }
  return (bytes + kGrain - 1) / kGrain * kGrain;
}

std::size_t segment_bytes(std::size_t size) {
  if (size <= kSmall) return kSmallSegment;
  if (size < kLarge) return kMediumSegment;
  return (size + kRounding - 1) / kRounding * kRounding;
}

c10::Device current_device() { return c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice(); }

}  // namespace

CardAllocator& card_allocator() {
  static auto* const allocator = new CardAllocator;  // tensors outlive static objects
  return *allocator;
}

CardAllocator::CardAllocator() { c10::SetAllocator(c10::kCUDA, this); }

bool CardAllocator::initialized() { return is_initialized_; }
void CardAllocator::initialize() { is_initialized_ = true; }

c10::DataPtr CardAllocator::allocate(std::size_t bytes) {
  const c10::Device device = current_device();
  if (bytes == 0) return {nullptr, nullptr, &free, device};
  const std::lock_guard guard(lock());
  is_initialized_ = true;
  const auto index = static_cast<std::size_t>(device.index());
  Card& card = cards_.at(index);
  streams().require(device);
  const c10::Stream stream = streams().current(device);
  const std::size_t size = rounded(bytes);
  const bool is_small = size <= kSmall;
  const bool is_refused = until_refusal_ > 0 && --until_refusal_ == 0;
  Block* block = is_refused ? nullptr : best_fit(card, stream, is_small, size);
  if (!block && !is_refused) block = with_retry(card, stream, is_small, size);
  ++blocks_allocated_;
  if (!block) {
    ++card.stats.num_ooms;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", bytes,
                     " bytes. The stand-in for GPU ", index, " has ", kBytes, " bytes, of which ",
                     card.stats.reserved_bytes[kAll].current, " are reserved.");
  }
  split(card, *block, size);
  std::memset(card.addresses.for_kernels(block->begin), 0xFF, std::min(size, kPoisoned));
  block->is_used = true;
  block->requested = bytes;
  card.stats.allocated_bytes[kAll].increase(block->size);
  trace(TraceEntry::ALLOC, index, *block);
  return {block->begin, block->begin, &free, device};
}

CardAllocator::Block* CardAllocator::with_retry(Card& card, c10::Stream stream, bool is_small,
                                                std::size_t size) {
  if (Block* const block = new_segment(card, stream, is_small, size)) return block;
  ++card.stats.num_alloc_retries;
  return_segments(card);
  return new_segment(card, stream, is_small, size);
}

CardAllocator::Block* CardAllocator::best_fit(Card& card, c10::Stream stream, bool is_small,
                                              std::size_t size) {
  Pool& pool = card.unused[{key_of(stream), is_small}];
  Block wanted;
  wanted.size = size;
  const auto found = pool.lower_bound(&wanted);
  if (found == pool.end()) return nullptr;
  Block* const block = *found;
  const std::size_t most = Config::max_split_size();
  if (size < most && block->size >= most) return nullptr;
  if (size >= most && block->size >= size + Config::max_non_split_rounding_size()) return nullptr;
  pool.erase(found);
  return block;
}

CardAllocator::Block* CardAllocator::new_segment(Card& card, c10::Stream stream, bool is_small,
                                                 std::size_t size) {
  const std::size_t bytes = segment_bytes(size);
  const auto reserved = static_cast<std::size_t>(card.stats.reserved_bytes[kAll].current);
  const auto allowed = static_cast<std::size_t>(card.share * static_cast<double>(kBytes));
  if (bytes > kBytes || reserved + bytes > std::min(allowed, kBytes - kContext)) return nullptr;
  auto* const begin = static_cast<char*>(card.addresses.take(bytes));
  if (!begin) return nullptr;
  card.stats.reserved_bytes[kAll].increase(bytes);
  auto& block = card.blocks[begin] = std::make_unique<Block>();
  block->begin = begin;
  block->size = bytes;
  block->is_small = is_small;
  block->stream = stream;
  return block.get();
}

void CardAllocator::split(Card& card, Block& block, std::size_t size) {
  const std::size_t rest = block.size - size;
  const bool is_split =
      block.is_small ? rest >= kGrain : size < Config::max_split_size() && rest > kSmall;
  if (!is_split) return;
  auto& other = card.blocks[block.begin + size] = std::make_unique<Block>(block);
  other->begin = block.begin + size;
  other->size = rest;
  other->before = &block;
  if (other->after) other->after->before = other.get();
  block.after = other.get();
  block.size = size;
  card.unused[{key_of(block.stream), block.is_small}].insert(other.get());
}

void CardAllocator::free(void* data) {
  if (!data) return;
  const std::lock_guard guard(lock());
  CardAllocator& own = card_allocator();
  for (std::size_t i = 0; i < own.cards_.size(); ++i) {
    Card& card = own.cards_[i];
    if (!card.addresses.contains(data)) continue;
    Block& block = *card.blocks.at(static_cast<char*>(data));
    std::vector<int> others;
    for (const c10::Stream stream : block.other_streams) others.push_back(key_of(stream));
    const int stream = key_of(block.stream);
    // The streams of a lost GPU can no longer wait for each other.
    if (streams().is_lost({c10::kCUDA, static_cast<c10::DeviceIndex>(i)})) block.uses = {};
    if (!own.graphs_.contains(stream) && !block.uses.are_before(stream, others))
      report("memory is freed while another stream may use it, which no record_stream() named");
    card.stats.allocated_bytes[kAll].decrease(block.size);
    own.trace(TraceEntry::FREE_COMPLETED, i, block);
    // Work that other streams have begun so far may still use it.
    auto left = std::make_shared<std::size_t>(block.other_streams.size());
    for (const c10::Stream stream : std::exchange(block.other_streams, {}))
      streams().when_finished(streams().latest(stream), [left, &own, &card, &block] {
        if (--*left == 0) own.release(card, &block);
      });
    if (*left == 0) own.release(card, &block);
    return;
  }
}

void CardAllocator::release(Card& card, Block* block) {
  block->is_used = false;
  const auto take = [&](Block* neighbor) {
    const bool is_free = neighbor && !neighbor->is_used;
    if (is_free) card.unused[{key_of(neighbor->stream), neighbor->is_small}].erase(neighbor);
    return is_free;
  };
  if (take(block->before)) block = joined(card, block->before, block);
  if (take(block->after)) block = joined(card, block, block->after);
  card.unused[{key_of(block->stream), block->is_small}].insert(block);
}

CardAllocator::Block* CardAllocator::joined(Card& card, Block* first, Block* second) {
  first->size += second->size;
  first->uses.add(second->uses);
  first->after = second->after;
  if (first->after) first->after->before = first;
  card.blocks.erase(second->begin);
  return first;
}

void CardAllocator::emptyCache(c10::MempoolId_t) {
  const std::lock_guard guard(lock());
  for (Card& card : cards_) return_segments(card);
}

void CardAllocator::return_segments(Card& card) {
  for (c10::DeviceIndex i = 0; i < kCards; ++i)
    streams().synchronize(c10::Device(c10::kCUDA, i));  // the driver waits too
  for (auto& [key, pool] : card.unused) {
    if (kept_.contains(key.first)) continue;
    std::erase_if(pool, [&](Block* block) {
      if (block->before || block->after) return false;
      card.stats.reserved_bytes[kAll].decrease(block->size);
      card.addresses.give_back(block->begin, block->size);
      card.blocks.erase(block->begin);
      return true;
    });
  }
}

void CardAllocator::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  const std::lock_guard guard(lock());
  for (Card& card : cards_) {
    const auto block = card.blocks.find(static_cast<char*>(data.get()));
    if (block == card.blocks.end() || stream == block->second->stream) continue;
    auto& others = block->second->other_streams;
    if (std::ranges::find(others, stream) == others.end()) others.push_back(stream);
  }
}

c10::CachingDeviceAllocator::DeviceStats CardAllocator::getDeviceStats(c10::DeviceIndex device) {
  const std::lock_guard guard(lock());
  return cards_.at(static_cast<std::size_t>(device)).stats;
}

void CardAllocator::resetPeakStats(c10::DeviceIndex device) {
  const std::lock_guard guard(lock());
  auto& stats = cards_.at(static_cast<std::size_t>(device)).stats;
  stats.allocated_bytes[kAll].reset_peak();
  stats.reserved_bytes[kAll].reset_peak();
}

std::pair<std::size_t, std::size_t> CardAllocator::getMemoryInfo(c10::DeviceIndex device) {
  streams().require({c10::kCUDA, device});
  const auto reserved = getDeviceStats(device).reserved_bytes[kAll].current;
  return {kBytes - kContext - static_cast<std::size_t>(reserved), kBytes};
}

double CardAllocator::share(c10::DeviceIndex device) const {
  const std::lock_guard guard(lock());
  return cards_.at(static_cast<std::size_t>(device)).share;
}

void CardAllocator::set_share(double share, c10::DeviceIndex device) {
  TORCH_CHECK(is_initialized_, "the allocator is not initialized");
  streams().require({c10::kCUDA, device});
  const std::lock_guard guard(lock());
  cards_.at(static_cast<std::size_t>(device)).share = share;
}

void CardAllocator::refuse(std::int64_t nth) {
  const std::lock_guard guard(lock());
  until_refusal_ = nth;
}

void CardAllocator::track(Tracker tracker) {
  const std::lock_guard guard(lock());
  trackers_.push_back(std::move(tracker));
}

void CardAllocator::trace(TraceEntry::Action action, std::size_t card, const Block& block) {
  const TraceEntry entry(action, static_cast<c10::DeviceIndex>(card),
                         reinterpret_cast<std::size_t>(block.begin), block.requested, nullptr,
                         {0, 0}, {});
  for (const Tracker& tracker : trackers_) tracker(entry);
}

c10::DeleterFnPtr CardAllocator::raw_deleter() const { return &free; }

void CardAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  const auto place = [this](const void* address) {
    for (const Card& card : cards_)
      if (card.addresses.contains(address)) return card.addresses.for_kernels(address);
    return const_cast<void*>(address);
  };
  std::memcpy(place(to), place(from), bytes);
}

const AddressSpace& CardAllocator::addresses(c10::DeviceIndex device) const {
  return cards_.at(static_cast<std::size_t>(device)).addresses;
}

void CardAllocator::keep(c10::Stream stream) {
  const std::lock_guard guard(lock());
  kept_.insert(key_of(stream));
  graphs_.insert(key_of(stream));
}

void CardAllocator::let_go(c10::Stream stream) {
  const std::lock_guard guard(lock());
  kept_.erase(key_of(stream));
}

/// Returns the block at an address; null if the memory there has been returned.
const CardAllocator::Block* CardAllocator::block_at(const Card& card, const void* data) {
  auto* const at = static_cast<char*>(const_cast<void*>(data));
  const auto after = card.blocks.upper_bound(at);
  if (after == card.blocks.begin()) return nullptr;
  const Block& block = *std::prev(after)->second;
  return at < block.begin + block.size ? &block : nullptr;
}

int CardAllocator::stream_of(const void* data) const {
  const std::lock_guard guard(lock());
  for (const Card& card : cards_) {
    const Block* const block = card.addresses.contains(data) ? block_at(card, data) : nullptr;
    if (block) return key_of(block->stream);
  }
  return -1;
}

Uses* CardAllocator::uses_of(const void* data) {
  for (Card& card : cards_) {
    if (!card.addresses.contains(data)) continue;
    const Block* const block = block_at(card, data);
    return block && block->is_used ? const_cast<Uses*>(&block->uses) : nullptr;
  }
  return nullptr;
}

}  // namespace stand_in
