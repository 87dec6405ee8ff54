#pragma once

#include <optional>
#include <vector>

#include "runner/parent/config/resolvers.h"

namespace runner {

/// The resolvers that compute: ${add:1,2}, ${sub:a,b}, ${mul:${train.epochs},0.1}, ${div:a,b}, ${int:0.9}. Their
/// arguments are numbers, or texts that read as numbers, such as ${oc.env:N}. Integers give integers, but where a
/// division leaves a remainder; int() cuts the fraction off. What is no number, too large or divided by zero is an
/// error.
std::optional<Value> add_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> subtract_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> multiply_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> divide_numbers(ResolverContext& context, std::vector<Value>& arguments);
std::optional<Value> integer_part(ResolverContext& context, std::vector<Value>& arguments);

}  // namespace runner
