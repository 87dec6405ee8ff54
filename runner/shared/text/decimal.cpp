#include "runner/shared/text/decimal.h"

#include <array>
#include <cstdio>

namespace runner {

std::string decimal(double value, int places) {
  std::array<char, 400> text;
  std::snprintf(text.data(), text.size(), "%.*f", places, value);
  return text.data();
}

std::string percent(double share) { return decimal(100 * share, 1); }

}  // namespace runner
