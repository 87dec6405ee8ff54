#include "runner/parent/config/overruled.h"

#include <algorithm>

#include "runner/parent/config/override_text.h"
#include "runner/parent/config/secret.h"

namespace runner {
namespace {

bool sets_value(const Override& override) {
  return override.value && !override.value->map() && override.kind != OverrideKind::kDelete;
}

/// As it was typed: of an alias of several keys, the alias.
std::string as_typed(const Override& override) {
  return without_secrets(override.where.source ? override.where.source->contents : override_text(override));
}

}  // namespace

Diagnostics overruled_overrides(std::span<const Override> overrides) {
  Diagnostics found;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    const Override& one = overrides[i];
    const auto later = std::find_if(overrides.begin() + static_cast<std::ptrdiff_t>(i) + 1, overrides.end(),
                                    [&](const Override& other) {
                                      return sets_value(other) && other.key == one.key && other.package == one.package;
                                    });
    if (!sets_value(one) || later == overrides.end() || same_data(*one.value, *later->value)) continue;
    found.push_back({ErrorCode::kOptionConflict,
                     one.key_where,
                     "",
                     "'" + as_typed(one) + "' has no effect: '" + as_typed(*later) + "', which comes after it, sets '" +
                         one.key + "'",
                     "leave one of them out",
                     {},
                     Severity::kWarning});
  }
  return found;
}

}  // namespace runner
