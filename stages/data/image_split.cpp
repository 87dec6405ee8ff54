#include "stages/data/image_split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stages/random/random.h"

namespace stages {
namespace {

/// Returns how many of `count` images go to each part, and how many to none.
std::array<std::int64_t, kSplitParts> shares(std::int64_t count, const SplitOptions& options) {
  const std::array<double, kSplitParts> wanted = {options.train, options.validation, options.test};
  std::array<std::int64_t, kSplitParts + 1> given{};
  std::array<double, kSplitParts + 1> rest{};
  // The unused rest counts as a part, so shares that sum to less than 1 are exact too.
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
    // Training may get even the last image of the richest part; the other parts may not.
    if (*richest < (part == Part::kTrain ? 1 : 2)) continue;
    --*richest;
    ++own;
  }
  return {given[0], given[1], given[2]};
}

/// Files that must be in the same part.
struct Together {
  std::int64_t label = 0;  // the highest label of the files
  std::string_view name;   // the name of the patient or of the file
  std::vector<std::size_t> files;
};

/// Groups the files of each patient; every other file is a group of its own. Groups are ordered by
/// their first files.
std::vector<Together> kept_together(const std::vector<ImageFile>& files) {
  std::vector<Together> units;
  std::unordered_map<std::string_view, std::size_t> of_patient;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& patient = files[i].patient;
    const auto [found, is_new] = files[i].patient.empty()
                                     ? std::pair(of_patient.end(), true)
                                     : of_patient.emplace(files[i].patient, units.size());
    Together& unit = is_new ? units.emplace_back() : units[found->second];
    unit.label = std::max(unit.label, files[i].label);
    unit.name = patient.empty() ? files[i].name : patient;
    unit.files.push_back(i);
  }
  return units;
}

}  // namespace

void split(ImageList& list, const SplitOptions& options, std::uint64_t seed) {
  const std::vector<ImageFile> files = std::exchange(list[Part::kTrain], {});
  const std::vector<Together> units = kept_together(files);
  std::vector<std::vector<const Together*>> classes;  // the groups of each class
  for (const Together& unit : units) {
    const auto label = static_cast<std::size_t>(unit.label);
    if (label >= classes.size()) classes.resize(label + 1);
    classes[label].push_back(&unit);
  }
  std::vector<std::optional<std::size_t>> part_of(files.size());
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::vector<std::string_view> unit_names;
    for (const Together* unit : classes[label]) unit_names.push_back(unit->name);
    const std::vector<std::size_t> drawn = drawn_by_name(unit_names, seed);
    std::size_t next = 0;
    const auto counts = shares(static_cast<std::int64_t>(drawn.size()), options);
    for (std::size_t part = 0; part < kSplitParts; ++part) {
      for (std::int64_t i = 0; i < counts[part]; ++i) {
        for (const std::size_t file : classes[label][drawn[next++]]->files) part_of[file] = part;
      }
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (part_of[i]) list.parts[*part_of[i]].push_back(files[i]);
  }
}

}  // namespace stages
