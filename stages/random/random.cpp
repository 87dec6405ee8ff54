#include "stages/random/random.h"

#include <algorithm>
#include <tuple>

#include "runner/shared/stage/split_mix.h"

namespace stages {

std::vector<std::size_t> drawn_by_name(std::span<const std::string_view> names,
                                       std::uint64_t seed) {
  struct Drawn {
    std::uint64_t number;
    std::size_t place;
  };
  std::vector<Drawn> drawn;
  for (std::size_t place = 0; place < names.size(); ++place)
    drawn.push_back({Random({seed, runner::fnv1a(names[place])}).next(), place});
  std::ranges::sort(drawn, [&](const Drawn& a, const Drawn& b) {
    return std::tie(a.number, names[a.place], a.place) <
           std::tie(b.number, names[b.place], b.place);
  });
  std::vector<std::size_t> places;
  for (const Drawn& one : drawn) places.push_back(one.place);
  return places;
}

}  // namespace stages
