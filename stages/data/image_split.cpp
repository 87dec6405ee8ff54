#include "stages/data/image_split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/data/image_groups.h"
#include "stages/random/random.h"

namespace stages {
namespace {

/// Returns how many of `count` images go to each part, and how many to none.
std::array<std::int64_t, kSplitParts> shares(std::int64_t count, const SplitOptions& options) {
  const std::array<double, kSplitParts> wanted = {options.train, options.validation, options.test};
  std::array<std::int64_t, kSplitParts + 1> given{};
  std::array<double, kSplitParts + 1> rest{};
  // The unused remainder counts as a part, so shares that add up to less than 1 are exact too.
  const double unused = std::max(0.0, 1 - options.train - options.validation - options.test);
  for (std::size_t i = 0; i <= kSplitParts; ++i) {
    // A product such as 0.29 · 100 must not fall short of 29.
    const double exact = (i < kSplitParts ? wanted[i] : unused) * static_cast<double>(count) + 1e-9;
    given[i] = static_cast<std::int64_t>(exact);
    rest[i] = exact - std::floor(exact);
  }
  for (std::int64_t left = count - std::accumulate(given.begin(), given.end(), std::int64_t{0});
       left > 0; --left) {
    const auto largest = std::ranges::max_element(rest) - rest.begin();
    ++given[static_cast<std::size_t>(largest)];
    rest[static_cast<std::size_t>(largest)] = -1;
  }
  for (const Part part : {Part::kTrain, Part::kTest, Part::kValidation}) {
    std::int64_t& own = given[static_cast<std::size_t>(part)];
    if (own > 0 || wanted[static_cast<std::size_t>(part)] <= 0) continue;
    const auto richest = std::ranges::max_element(given);
    // The training part may take even the last image of the largest part; the other parts may not.
    if (*richest < (part == Part::kTrain ? 1 : 2)) continue;
    --*richest;
    ++own;
  }
  return {given[0], given[1], given[2]};
}

}  // namespace

void split(ImageList& list, const SplitOptions& options, std::uint64_t seed) {
  const std::vector<ImageFile> files = std::exchange(list[Part::kTrain], {});
  const std::vector<std::vector<ImageGroup>> classes = groups_by_class(files);
  std::vector<std::optional<std::size_t>> part_of(files.size());
  for (const std::vector<ImageGroup>& groups : classes) {
    std::vector<std::string_view> group_names;
    for (const ImageGroup& group : groups) group_names.push_back(group.name);
    const std::vector<std::size_t> drawn = drawn_by_name(group_names, seed);
    std::size_t next = 0;
    const auto counts = shares(static_cast<std::int64_t>(drawn.size()), options);
    for (std::size_t part = 0; part < kSplitParts; ++part) {
      for (std::int64_t i = 0; i < counts[part]; ++i) {
        for (const std::size_t file : groups[drawn[next++]].files) part_of[file] = part;
      }
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (part_of[i]) list.parts[*part_of[i]].push_back(files[i]);
  }
}

}  // namespace stages
