#include "runner/shared/stage/determinism.h"

#include <algorithm>
#include <array>

namespace runner {
namespace {

constexpr std::array<std::string_view, 3> kDeterminismNames = {"strict", "warn", "off"};

}  // namespace

std::string_view name(Determinism determinism) {
  return kDeterminismNames[static_cast<std::size_t>(determinism)];
}

std::optional<Determinism> determinism_named(std::string_view name) {
  const auto found = std::ranges::find(kDeterminismNames, name);
  if (found == kDeterminismNames.end()) return std::nullopt;
  return static_cast<Determinism>(found - kDeterminismNames.begin());
}

std::optional<std::string> nondeterministic_operation(std::string_view text) {
  const std::size_t end = text.find(" does not have a deterministic implementation");
  if (end == text.npos || end == 0) return std::nullopt;
  const std::size_t line = text.substr(0, end).rfind('\n');
  return std::string(text.substr(line + 1, end - line - 1));  // npos + 1 is 0
}

std::string nondeterminism_text(const std::string& operation) {
  return "the operation '" + operation + "' has no deterministic implementation";
}

}  // namespace runner
