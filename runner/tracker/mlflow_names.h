#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace runner {

/// The maximum number of entries of each kind in one request to runs/log-batch
/// (mlflow/utils/validation.py).
inline constexpr std::size_t kMostMetrics = 1000, kMostParams = 100, kMostTags = 100;
/// The maximum length of a value in bytes. MLflow counts characters; a text never has more
/// characters than bytes.
inline constexpr std::size_t kLongestParamValue = 6000, kLongestTagValue = 8000;

/// Returns the name of a metric or a parameter in the form that MLflow accepts: at most 250 letters
/// and digits, and `_`, `-`, `.`, `/` and spaces, without empty parts between slashes. `@` becomes
/// "_at_", other ASCII characters become `_`, and the rest become their code points; a name that is
/// too long is cut and ends with its digest.
std::string mlflow_name(std::string_view name);

/// Returns a value cut to at most `most` bytes; a value that was cut ends with "… (cut)".
std::string mlflow_value(std::string_view value, std::size_t most);

}  // namespace runner
