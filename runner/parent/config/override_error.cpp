#include "runner/parent/config/override_error.h"

#include <utility>

namespace runner {

void fail_override(Location where, std::string message, std::string help, ErrorCode code) {
  throw OverrideError{{code, where, "", std::move(message), std::move(help)}};
}

Location OverridePlaces::at(std::size_t offset) {
  if (offset < offset_) {
    offset_ = line_start_ = 0;
    line_ = 1;
  }
  for (; offset_ < offset; ++offset_) {
    if (source_.contents[offset_] != '\n') continue;
    ++line_;
    line_start_ = offset_ + 1;
  }
  return {&source_, line_, static_cast<int>(offset - line_start_) + 1};
}

}  // namespace runner
