#include "stages/artifact/sample_order.h"

#include <numeric>
#include <utility>

#include "stages/random/random.h"

namespace stages {

std::int64_t SampleOrder::size() const {
  return std::visit([](const auto& order) { return static_cast<std::int64_t>(order.size()); },
                    order_);
}

std::int64_t SampleOrder::operator[](std::int64_t place) const {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&order_))
    return (*list)[static_cast<std::size_t>(place)];
  if (const auto* permutation = std::get_if<Permutation>(&order_)) return (*permutation)[place];
  return std::get<Sequence>(order_)[place];
}

SampleOrder shuffled_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  if (size > kLongestListedOrder) return Permutation(size, seed, epoch);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  Random random({seed, static_cast<std::uint64_t>(epoch)});
  for (std::int64_t i = size - 1; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  return order;
}

SampleOrder sequential_order(std::int64_t size) { return SampleOrder::sequential(size); }

}  // namespace stages
