#include "stages/machine/page_set.h"

#include <algorithm>
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
    if (after != ranges_.begin() && std::prev(after)->second == gap.begin) std::prev(after)->second = whole.end;
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

}  // namespace stages
