#include "runner/shared/value/json_number.h"

#include <cmath>
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

namespace runner {

nlohmann::ordered_json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::optional<double> number_from_json(const nlohmann::ordered_json& json) {
  if (json.is_number()) return json.get<double>();
  return json.is_string() ? non_finite(json.get_ref<const std::string&>()) : std::nullopt;
}

std::optional<double> non_finite(std::string_view text) {
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

}  // namespace runner
