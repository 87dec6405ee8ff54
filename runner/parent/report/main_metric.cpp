#include "runner/parent/report/main_metric.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace runner {
namespace {

constexpr std::string_view kTestAccuracy = "evaluate/top1";
constexpr std::array<std::string_view, 3> kNamesOfTestAccuracy = {"accuracy", "top1",
                                                                  "test_accuracy"};
constexpr std::array<std::string_view, 8> kKnownWords = {kTestAccuracy,
                                                         "evaluate/episode_accuracy",
                                                         "evaluate/mean_average_precision",
                                                         "evaluate/mae",
                                                         "validation/accuracy",
                                                         "validation/mean_average_precision",
                                                         "validation/mae",
                                                         "validation/loss"};
constexpr std::array<std::string_view, 3> kKnownFamilies = {"evaluate/", "validation/", "train/"};

std::string_view without_node(std::string_view metric) {
  const std::size_t colon = metric.find(':');
  return colon == metric.npos ? metric : metric.substr(colon + 1);
}

/// Returns the first of `names` for which `is_meant` is true; null if there is none. Tries the
/// complete names first, then the names without their nodes.
const std::string* first_of(std::span<const std::string> names, const auto& is_meant) {
  const auto whole = std::ranges::find_if(names, is_meant);
  if (whole != names.end()) return &*whole;
  const auto part = std::ranges::find_if(
      names, [&](const std::string& name) { return is_meant(without_node(name)); });
  return part == names.end() ? nullptr : &*part;
}

}  // namespace

bool is_smaller_better(const std::string& metric) {
  constexpr std::array<std::string_view, 6> kSmaller = {"loss",       "error", "rank",
                                                        "perplexity", "mae",   "mse"};
  return std::ranges::any_of(
      kSmaller, [&](std::string_view part) { return metric.find(part) != metric.npos; });
}

bool is_of_test(const std::string& metric) { return without_node(metric).starts_with("evaluate/"); }

std::vector<std::string> metrics_meant(const std::string& wanted,
                                       std::span<const std::string> names) {
  const bool is_short =
      std::ranges::find(kNamesOfTestAccuracy, wanted) != kNamesOfTestAccuracy.end();
  const std::string whole = is_short ? std::string(kTestAccuracy) : wanted;
  if (std::ranges::find(names, whole) != names.end()) return {whole};
  std::vector<std::string> meant;
  for (const std::string& name : names) {
    const std::string_view own = without_node(name);
    if (own == whole || (!is_short && own.ends_with("/" + whole))) meant.push_back(name);
  }
  return meant;
}

std::string choosing_metric(std::span<const std::string> names) {
  for (const std::string_view one :
       {"validation/accuracy", "validation/mean_average_precision", "validation/loss"})
    if (std::ranges::find(names, one) != names.end()) return std::string(one);
  const auto first = std::ranges::find_if(
      names, [](const std::string& name) { return name.starts_with("validation/"); });
  return first == names.end() ? main_metric(names) : *first;
}

std::string main_metric(std::span<const std::string> names) {
  for (const std::string_view one : kKnownWords)
    if (const auto* found = first_of(names, [&](std::string_view name) { return name == one; }))
      return *found;
  for (const std::string_view family : kKnownFamilies)
    if (const auto* found =
            first_of(names, [&](std::string_view name) { return name.starts_with(family); }))
      return *found;
  return names.empty() ? "" : names.front();
}

}  // namespace runner
