#pragma once

#include <cstdint>
#include <map>
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

}  // namespace stages
