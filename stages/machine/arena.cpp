#include "stages/machine/arena.h"

#include <cassert>

namespace stages {

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
  if (const auto after = begins_.find(block.end); after != begins_.end()) block.end = take_unused(after->first).end;
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

}  // namespace stages
