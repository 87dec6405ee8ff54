#include "stages/ranks/state_shard.h"

#include <algorithm>
#include <numeric>

namespace stages {

std::vector<int> owners_of(const std::vector<std::int64_t>& bytes, int ranks) {
  std::vector<std::size_t> largest_first(bytes.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::ranges::stable_sort(largest_first, std::ranges::greater(),
                           [&](std::size_t parameter) { return bytes[parameter]; });
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> sums(count, 0);
  std::vector<std::size_t> taker(bytes.size());
  for (const std::size_t parameter : largest_first) {
    taker[parameter] = static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin());
    sums[taker[parameter]] += bytes[parameter];
  }
  std::vector<std::size_t> most_first(count);
  std::iota(most_first.begin(), most_first.end(), std::size_t{0});
  std::ranges::stable_sort(most_first, std::ranges::greater(),
                           [&](std::size_t one) { return sums[one]; });
  std::vector<int> rank_of(count), owners;
  for (std::size_t rank = 0; rank < count; ++rank)
    rank_of[most_first[rank]] = static_cast<int>(rank);
  for (const std::size_t one : taker) owners.push_back(rank_of[one]);
  return owners;
}

StateShard shard_of(const std::vector<at::Tensor>& parameters, int rank, int ranks) {
  std::vector<std::int64_t> bytes;
  for (const at::Tensor& parameter : parameters)
    bytes.push_back(static_cast<std::int64_t>(parameter.nbytes()));
  return {.rank = rank, .owners = owners_of(bytes, ranks)};
}

}  // namespace stages
