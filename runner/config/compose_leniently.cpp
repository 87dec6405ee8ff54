#include "runner/config/compose_leniently.h"

#include <algorithm>

namespace runner {
namespace {

/// Makes a sweep its first value; false: it has none that can be named.
bool take_first_value(Override& override) {
  if (!override.sweep) return true;
  if (override.sweep->choices.empty()) return false;
  override.value = override.sweep->choices.front();
  override.sweep.reset();
  return true;
}

}  // namespace

std::optional<Composition> compose_leniently(Composer& composer, std::span<const std::string> words, Sources& sources) {
  std::vector<Override> overrides;
  for (const std::string& word : words) {
    auto override = parse_override(sources.add("override", word));
    if (!override || !take_first_value(*override)) continue;
    auto meant = apply_alias(*override, composer.aliases());
    if (meant) overrides.insert(overrides.end(), meant->begin(), meant->end());
  }
  while (true) {
    auto composition = composer.compose(overrides);
    if (composition) return *std::move(composition);
    if (overrides.empty()) return std::nullopt;
    const auto is_blamed = [&composition](const Override& override) {
      return std::ranges::any_of(composition.errors(), [&override](const Diagnostic& error) {
        return error.where.source && error.where.source == override.where.source;
      });
    };
    // What is wrong may also stand in a file that an override leads to.
    if (std::erase_if(overrides, is_blamed) == 0) overrides.pop_back();
  }
}

}  // namespace runner
