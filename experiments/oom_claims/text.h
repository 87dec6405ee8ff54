#pragma once

#include <cstdint>
#include <string>

namespace oom_claims {

/// Returns a size such as "3.25 GiB", "22.4 MiB" or "4 B".
std::string size(std::int64_t bytes);
/// Returns the change from `before` to `now`, such as "+31%" or "-0.3%".
std::string change(std::int64_t before, std::int64_t now);
/// Returns a relative error in float64, such as "2e-2". Rounding errors differ from processor to
/// processor, so they are "below 1e-12".
std::string one_digit(double error);
/// Returns the order of magnitude of a rounding error, such as "1e-2".
std::string magnitude(double error);

}  // namespace oom_claims
