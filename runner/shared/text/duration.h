#pragma once

#include <string>

namespace runner {

/// "0:01:23".
std::string duration_text(double seconds);

}  // namespace runner
