#pragma once

#include <cstdint>
#include <string>

namespace oom_claims {

/// "3.25 GiB", "22.4 MiB", "4 B".
std::string size(std::int64_t bytes);
/// "+31 %", "-0.3 %": how far `now` is from `before`.
std::string change(std::int64_t before, std::int64_t now);
/// A relative error in float64, "2e-2"; what rounding leaves, which differs from processor to
/// processor, is "below 1e-12".
std::string one_digit(double error);
/// The order of magnitude of an error that rounding makes, "1e-2".
std::string magnitude(double error);

}  // namespace oom_claims
