#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "stages/machine/page_set.h"

namespace stages {

/// Hands out the addresses of a range in blocks: the smallest unused block that is large enough, of several the one
/// with the lowest address; what it has too much is split off, and a block that is freed is joined with the unused
/// blocks on both sides. So it grows from its beginning, and where a block lies depends on the calls before alone.
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
  std::map<std::int64_t, std::int64_t> begins_, ends_;  // of the unused: bytes by the beginning, and by the end
  std::map<std::int64_t, std::int64_t> used_;           // bytes by the beginning
};

}  // namespace stages
