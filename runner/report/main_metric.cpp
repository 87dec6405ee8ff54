#include "runner/report/main_metric.h"

#include <algorithm>
#include <array>

namespace runner {
namespace {

constexpr std::array<std::string_view, 5> kTelling = {"evaluate/accuracy", "evaluate/top1", "validation/accuracy",
                                                      "accuracy", "validation/loss"};
constexpr std::array<std::string_view, 3> kTellingFamilies = {"evaluate/", "validation/", "train/"};

std::string_view without_node(std::string_view metric) {
  const std::size_t colon = metric.find(':');
  return colon == metric.npos ? metric : metric.substr(colon + 1);
}

/// The first name that `is_meant` without its node, one that has none before one that has; null: there is none.
const std::string* first_of(std::span<const std::string> names, const auto& is_meant) {
  const auto whole = std::ranges::find_if(names, is_meant);
  if (whole != names.end()) return &*whole;
  const auto part = std::ranges::find_if(names, [&](const std::string& name) { return is_meant(without_node(name)); });
  return part == names.end() ? nullptr : &*part;
}

}  // namespace

bool is_smaller_better(const std::string& metric) {
  constexpr std::array<std::string_view, 4> kSmaller = {"loss", "error", "rank", "perplexity"};
  return std::ranges::any_of(kSmaller, [&](std::string_view part) { return metric.find(part) != metric.npos; });
}

std::string main_metric(std::span<const std::string> names) {
  for (const std::string_view one : kTelling)
    if (const auto* found = first_of(names, [&](std::string_view name) { return name == one; })) return *found;
  for (const std::string_view family : kTellingFamilies)
    if (const auto* found = first_of(names, [&](std::string_view name) { return name.starts_with(family); }))
      return *found;
  return names.empty() ? "" : names.front();
}

}  // namespace runner
