#include "stages/machine/block_pool.h"

#include <algorithm>

namespace stages {
namespace {

constexpr std::int64_t kAligned = 2 << 20;  // the parts begin where a huge page can

std::int64_t down_to(std::int64_t bytes, std::int64_t unit) { return bytes / unit * unit; }
std::int64_t up_to(std::int64_t bytes, std::int64_t unit) { return down_to(bytes + unit - 1, unit); }

/// The pages that a block lies in, be it with a byte.
AddressRange pages_around(AddressRange block) {
  return {down_to(block.begin, BlockPool::kPage), up_to(block.end, BlockPool::kPage)};
}

/// The pages that lie in a block with all their bytes.
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
  Part& part = parts_[lane == Lane::kBeside ? kBesidePart : size <= kSmall ? kSmallPart : kLargePart];
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
  return *std::ranges::find_if(
      parts_, [&](const Part& part) { return part.addresses.begin <= address && address < part.addresses.end; });
}

/// The pages of a block that are not reserved yet.
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
