#include "stages/machine/block_pool.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace stages {

std::vector<AddressRange> PageSet::present(AddressRange range) const {
  std::vector<AddressRange> parts;
  auto next = ranges_.upper_bound(range.begin);
  if (next != ranges_.begin()) --next;
  for (; next != ranges_.end() && next->first < range.end; ++next) {
    const AddressRange part{std::max(next->first, range.begin), std::min(next->second, range.end)};
    if (part.bytes() > 0) parts.push_back(part);
  }
  return parts;
}

std::vector<AddressRange> PageSet::missing(AddressRange range) const {
  std::vector<AddressRange> parts;
  for (const AddressRange& there : present(range)) {
    if (there.begin > range.begin) parts.push_back({range.begin, there.begin});
    range.begin = there.end;
  }
  if (range.bytes() > 0) parts.push_back(range);
  return parts;
}

void PageSet::add(AddressRange range) {
  for (const AddressRange& gap : missing(range)) {
    bytes_ += gap.bytes();
    auto after = ranges_.lower_bound(gap.begin);
    AddressRange whole = gap;
    if (after != ranges_.end() && after->first == gap.end) {
      whole.end = after->second;
      after = ranges_.erase(after);
    }
    if (after != ranges_.begin() && std::prev(after)->second == gap.begin)
      std::prev(after)->second = whole.end;
    else ranges_.emplace_hint(after, whole.begin, whole.end);
  }
}

void PageSet::remove(AddressRange range) {
  for (const AddressRange& part : present(range)) {
    bytes_ -= part.bytes();
    const auto whole = std::prev(ranges_.upper_bound(part.begin));
    const std::int64_t end = whole->second;
    if (whole->first == part.begin) ranges_.erase(whole);
    else whole->second = part.begin;
    if (part.end < end) ranges_.emplace(part.end, end);
  }
}

Arena::Arena(AddressRange addresses) { add_unused(addresses); }

std::optional<std::int64_t> Arena::allocate(std::int64_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return {};
  const AddressRange block = take_unused(found->second);
  const std::int64_t end = block.begin + bytes;
  if (end < block.end) add_unused({end, block.end});
  used_.emplace(block.begin, bytes);
  return block.begin;
}

std::int64_t Arena::free(std::int64_t begin) {
  const auto used = used_.find(begin);
  assert(used != used_.end());
  const std::int64_t bytes = used->second;
  used_.erase(used);
  AddressRange block{begin, begin + bytes};
  if (const auto after = begins_.find(block.end); after != begins_.end())
    block.end = take_unused(after->first).end;
  if (const auto before = ends_.find(block.begin); before != ends_.end())
    block.begin = take_unused(before->first - before->second).begin;
  add_unused(block);
  return bytes;
}

std::vector<AddressRange> Arena::unused() const {
  std::vector<AddressRange> blocks;
  for (const auto& [begin, bytes] : begins_) blocks.push_back({begin, begin + bytes});
  return blocks;
}

void Arena::add_unused(AddressRange block) {
  by_size_.emplace(block.bytes(), block.begin);
  begins_.emplace(block.begin, block.bytes());
  ends_.emplace(block.end, block.bytes());
}

AddressRange Arena::take_unused(std::int64_t begin) {
  const auto found = begins_.find(begin);
  const AddressRange block{begin, begin + found->second};
  by_size_.erase({block.bytes(), begin});
  begins_.erase(found);
  ends_.erase(block.end);
  return block;
}

namespace {

constexpr std::int64_t kAligned = 2 << 20;  // parts start on a huge-page boundary

std::int64_t down_to(std::int64_t bytes, std::int64_t unit) { return bytes / unit * unit; }
std::int64_t up_to(std::int64_t bytes, std::int64_t unit) {
  return down_to(bytes + unit - 1, unit);
}

/// Returns the pages that a block touches.
AddressRange pages_around(AddressRange block) {
  return {down_to(block.begin, BlockPool::kPage), up_to(block.end, BlockPool::kPage)};
}

/// Returns the pages that lie completely within a block.
AddressRange pages_within(AddressRange block) {
  const std::int64_t begin = up_to(block.begin, BlockPool::kPage);
  return {begin, std::max(begin, down_to(block.end, BlockPool::kPage))};
}

}  // namespace

BlockPool::BlockPool(std::int64_t addresses, Pages* pages)
    : parts_([&] {
        const std::int64_t eighth = down_to(addresses / 8, kAligned);
        const auto part = [](std::int64_t begin, std::int64_t end) {
          return Part{{begin, end}, Arena({begin, end}), {}};
        };
        return std::array{part(0, eighth), part(2 * eighth, 8 * eighth), part(eighth, 2 * eighth)};
      }()),
      pages_(pages) {}

std::optional<std::int64_t> BlockPool::allocate(std::int64_t bytes, Lane lane) {
  const std::int64_t size = up_to(std::max<std::int64_t>(bytes, 1), kGrain);
  Part& part = parts_[lane == Lane::kBeside ? kBesidePart
                      : size <= kSmall      ? kSmallPart
                                            : kLargePart];
  const std::optional<std::int64_t> address = part.arena.allocate(size);
  if (!address) {
    wanted_limit_ = 0;
    return {};
  }
  const AddressRange block{*address, *address + size};
  if (!reserve(part, block)) {
    empty_cache();
    if (!reserve(part, block)) {
      part.arena.free(*address);
      return {};
    }
    ++retries_;
  }
  allocated_ += size;
  return address;
}

void BlockPool::free(std::int64_t address) { allocated_ -= part_of(address).arena.free(address); }

void BlockPool::empty_cache() {
  for (Part& part : parts_) {
    for (const AddressRange& block : part.arena.unused()) {
      for (const AddressRange& range : part.reserved.present(pages_within(block))) {
        if (pages_) pages_->give_back(range);
        part.reserved.remove(range);
      }
    }
  }
}

void BlockPool::set_limit(std::optional<std::int64_t> bytes) {
  limit_ = bytes;
  if (limit_ && reserved() > *limit_) empty_cache();
}

std::int64_t BlockPool::reserved() const { return reserved(Lane::kStep) + reserved(Lane::kBeside); }

std::int64_t BlockPool::reserved(Lane lane) const {
  if (lane == Lane::kBeside) return parts_[kBesidePart].reserved.bytes();
  return parts_[kSmallPart].reserved.bytes() + parts_[kLargePart].reserved.bytes();
}

BlockPool::Part& BlockPool::part_of(std::int64_t address) {
  return *std::ranges::find_if(parts_, [&](const Part& part) {
    return part.addresses.begin <= address && address < part.addresses.end;
  });
}

/// Reserves those pages of a block that are not reserved yet. Returns false if the limit is too low
/// or memory has run out.
bool BlockPool::reserve(Part& part, AddressRange block) {
  const std::vector<AddressRange> missing = part.reserved.missing(pages_around(block));
  wanted_limit_ = reserved();
  for (const AddressRange& range : missing) wanted_limit_ += range.bytes();
  if (!missing.empty() && limit_ && wanted_limit_ > *limit_) return false;
  for (const AddressRange& range : missing) {
    if (pages_ && !pages_->take(range)) return false;
    part.reserved.add(range);
  }
  peak_reserved_ = std::max(peak_reserved_, reserved());
  return true;
}

}  // namespace stages
