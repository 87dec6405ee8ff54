#include "runner/shared/stage/family.h"

#include <algorithm>
#include <array>
#include <utility>

namespace runner {

std::optional<Family> family_of(std::string_view kind) {
  static constexpr std::array<std::pair<std::string_view, Family>, 5> kFamilies = {
      {{"data", Family::kData},
       {"model", Family::kModel},
       {"memory", Family::kMemory},
       {"train", Family::kTrain},
       {"evaluate", Family::kEvaluate}}};
  const std::size_t dot = kind.find('.');
  if (dot == kind.npos) return std::nullopt;
  const auto found = std::ranges::find(kFamilies, kind.substr(0, dot),
                                       &std::pair<std::string_view, Family>::first);
  return found == kFamilies.end() ? std::nullopt : std::optional(found->second);
}

std::string_view name_in_family(std::string_view kind) {
  return family_of(kind) ? kind.substr(kind.find('.') + 1) : kind;
}

}  // namespace runner
