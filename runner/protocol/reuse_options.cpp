#include "runner/protocol/reuse_options.h"

#include <array>
#include <stdexcept>

namespace runner {

using Which = ReuseOptions::Which;

std::string_view name(Which which) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "cacheable", "all"};
  return kNames[static_cast<std::size_t>(which)];
}

Which reuse_named(std::string_view text) {
  for (const Which which : {Which::kNone, Which::kCacheable, Which::kAll}) {
    if (name(which) == text) return which;
  }
  throw std::runtime_error("its 'reuse'");
}

}  // namespace runner
