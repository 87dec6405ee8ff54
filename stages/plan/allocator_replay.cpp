#include "stages/plan/allocator_replay.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>
#include <utility>

namespace stages {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kUnit = 512;               // block sizes are multiples of this
constexpr std::int64_t kSmall = kMiB;             // blocks up to this size come from the small pool
constexpr std::int64_t kSmallSegment = 2 * kMiB;  // segments of the small pool; large segments are
                                                  // rounded up to a multiple of this
constexpr std::int64_t kLargeSegment = 20 * kMiB;
constexpr std::int64_t kOwnSegment = 10 * kMiB;  // blocks of at least this size get their own
                                                 // segment
constexpr std::int64_t kOversize =
    20 * kMiB;  // how far an unsplit block may exceed the requested size

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

AllocatorRules rules_of(const AllocatorSettings& settings) {
  AllocatorRules rules;
  rules.expandable_segments = settings.expandable_segments.value_or(false);
  if (settings.max_split_size_mb) rules.max_split_size = *settings.max_split_size_mb * kMiB;
  rules.roundup_power2_divisions = settings.roundup_power2_divisions.value_or(0);
  return rules;
}

/// Returns where `block` stands in the pool, or would stand.
AllocatorReplay::Pool::iterator AllocatorReplay::place_in(Pool& pool, const Block& block) {
  return std::ranges::lower_bound(
      pool, std::tuple(block.size, block.address), {},
      [](const Block* one) { return std::tuple(one->size, one->address); });
}

std::int64_t AllocatorReplay::rounded(std::int64_t bytes) const {
  if (bytes < kUnit) return kUnit;
  const std::int64_t divisions = rules_.roundup_power2_divisions;
  if (divisions <= 1 || bytes <= kUnit * divisions) return rounded_up(bytes, kUnit);
  const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
  return floor == bytes ? bytes : rounded_up(bytes, std::max<std::int64_t>(1, floor / divisions));
}

bool AllocatorReplay::allocate(std::size_t name, std::int64_t bytes) {
  if (bytes == 0) return true;
  const std::int64_t size = rounded(bytes);
  const bool is_small = size <= kSmall;
  Block* block = best_fit(is_small, size);
  if (!block) block = from_device(is_small, size);
  if (!block) {
    ++retries_;
    empty_cache();
    block = from_device(is_small, size);
  }
  if (!block) return false;
  if (is_split(*block, size)) split(*block, size);
  block->is_used = true;
  if (name >= used_.size()) used_.resize(name + 1);
  used_[name] = block;
  allocated_ += block->size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return true;
}

void AllocatorReplay::free(std::size_t name) {
  if (name >= used_.size() || !used_[name]) return;
  Block* block = std::exchange(used_[name], nullptr);
  allocated_ -= block->size;
  block->is_used = false;
  block = joined(block, block->before);
  block = joined(block, block->after);
  insert(pool(block->is_small), block);
}

void AllocatorReplay::empty_cache() {
  if (rules_.expandable_segments) {
    give_back_end(true);
    give_back_end(false);
    return;
  }
  for (Pool* unused : {&small_, &large_}) {
    std::erase_if(*unused, [&](Block* block) {
      const bool is_segment = !block->before && !block->after;
      if (is_segment) {
        reserved_ -= block->size;
        spare_.push_back(block);
      }
      return is_segment;
    });
  }
}

/// Finds the best fit and removes it from its pool; returns null if there is none.
AllocatorReplay::Block* AllocatorReplay::best_fit(bool is_small, std::int64_t size) {
  Pool& unused = pool(is_small);
  const Block wanted{.size = size};
  auto found = place_in(unused, wanted);
  // The end of an expandable segment could grow, so any other fit is better.
  if (found != unused.end() && *found == end_of(is_small) && std::next(found) != unused.end())
    ++found;
  if (found == unused.end()) return nullptr;
  Block* const block = *found;
  if (size < rules_.max_split_size && block->size >= rules_.max_split_size) return nullptr;
  if (size >= rules_.max_split_size && block->size >= size + kOversize) return nullptr;
  unused.erase(found);
  return block;
}

AllocatorReplay::Block* AllocatorReplay::from_device(bool is_small, std::int64_t size) {
  return rules_.expandable_segments ? grown_segment(is_small, size) : new_segment(is_small, size);
}

AllocatorReplay::Block* AllocatorReplay::new_segment(bool is_small, std::int64_t size) {
  const std::int64_t bytes = is_small             ? kSmallSegment
                             : size < kOwnSegment ? kLargeSegment
                                                  : rounded_up(size, kSmallSegment);
  if (!reserve(bytes)) return nullptr;
  ++segments_;
  Block* const block = make({.address = next_address_, .size = bytes, .is_small = is_small});
  next_address_ += bytes;
  return block;
}

/// Grows the pool's single segment until its unused end has `size` bytes, and returns that end.
AllocatorReplay::Block* AllocatorReplay::grown_segment(bool is_small, std::int64_t size) {
  Block*& end = end_of(is_small);
  const std::int64_t there = end && !end->is_used ? end->size : 0;
  const std::int64_t more = rounded_up(size - there, is_small ? kSmallSegment : kLargeSegment);
  if (!reserve(more)) return nullptr;
  if (there > 0) {
    erase(pool(is_small), end);
    end->size += more;
    return end;
  }
  if (!end) ++segments_;
  // The two pools start far apart so that their addresses never overlap.
  const std::int64_t start = is_small ? 0 : std::int64_t{1} << 60;
  Block* const block = make({.address = end ? end->address + end->size : start,
                             .size = more,
                             .is_small = is_small,
                             .before = end});
  if (end) end->after = block;
  return end = block;
}

bool AllocatorReplay::reserve(std::int64_t bytes) {
  if (bytes > rules_.limit - reserved_) return false;
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return true;
}

bool AllocatorReplay::is_split(const Block& block, std::int64_t size) const {
  const std::int64_t rest = block.size - size;
  if (block.is_small || rules_.expandable_segments) return rest >= kUnit;
  return size < rules_.max_split_size && rest > kSmall;
}

void AllocatorReplay::split(Block& block, std::int64_t size) {
  Block* const rest = make({.address = block.address + size,
                            .size = block.size - size,
                            .is_small = block.is_small,
                            .before = &block,
                            .after = block.after});
  if (block.after) block.after->before = rest;
  block.after = rest;
  block.size = size;
  if (end_of(block.is_small) == &block) end_of(block.is_small) = rest;
  insert(pool(block.is_small), rest);
}

/// Merges `block`, which is in no pool, with `neighbor` if that is unused. Returns the result.
AllocatorReplay::Block* AllocatorReplay::joined(Block* block, Block* neighbor) {
  if (!neighbor || neighbor->is_used) return block;
  erase(pool(neighbor->is_small), neighbor);
  Block* const first = neighbor == block->before ? neighbor : block;
  Block* const second = first == block ? neighbor : block;
  first->size += second->size;
  first->after = second->after;
  if (second->after) second->after->before = first;
  if (end_of(first->is_small) == second) end_of(first->is_small) = first;
  spare_.push_back(second);
  return first;
}

AllocatorReplay::Block* AllocatorReplay::make(const Block& block) {
  if (spare_.empty()) return &blocks_.emplace_back(block);
  Block* const made = spare_.back();
  spare_.pop_back();
  *made = block;
  return made;
}

void AllocatorReplay::give_back_end(bool is_small) {
  Block* const end = end_of(is_small);
  if (!end || end->is_used) return;
  const std::int64_t unit = is_small ? kSmallSegment : kLargeSegment;
  const std::int64_t bytes = end->size / unit * unit;
  if (bytes == 0) return;
  erase(pool(is_small), end);
  reserved_ -= bytes;
  end->size -= bytes;
  if (end->size > 0) {
    insert(pool(is_small), end);
    return;
  }
  end_of(is_small) = end->before;
  if (end->before) end->before->after = nullptr;
  spare_.push_back(end);
}

}  // namespace stages
