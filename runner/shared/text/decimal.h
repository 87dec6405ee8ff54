#pragma once

#include <string>

namespace runner {

/// `value` with so many decimals: "0.50"; NaN and infinities as "nan", "inf", "-inf".
std::string decimal(double value, int places);

/// A share as "83.3".
std::string percent(double share);

}  // namespace runner
