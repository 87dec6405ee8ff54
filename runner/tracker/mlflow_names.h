#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace runner {

/// The most entries of a kind in one request to runs/log-batch (mlflow/utils/validation.py).
inline constexpr std::size_t kMostMetrics = 1000, kMostParams = 100, kMostTags = 100;
/// The most bytes of a value; MLflow counts characters, of which there are no more than bytes.
inline constexpr std::size_t kLongestParamValue = 6000, kLongestTagValue = 8000;

/// Returns the name of a metric or a parameter in the form that MLflow accepts: at most 250 letters
/// and digits, and `_`, `-`, `.`, `/` and spaces, without empty parts between slashes. `@` becomes
/// "_at_", another ASCII character `_`, and the others their numbers; a longer name ends with its
/// digest.
std::string mlflow_name(std::string_view name);

/// Returns at most `most` bytes of a value; a cut value ends with "… (cut)".
std::string mlflow_value(std::string_view value, std::size_t most);

}  // namespace runner
