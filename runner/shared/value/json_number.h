#pragma once

#include <optional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// JSON knows no NaN and no infinities: they are the texts "nan", "inf" and "-inf" in all that we write.
nlohmann::ordered_json number_json(double value);

/// What such a number or text says; nullopt for anything else.
std::optional<double> number_from_json(const nlohmann::ordered_json& json);

/// The number that is written "nan", "inf" or "-inf"; nullopt for any other text.
std::optional<double> non_finite(std::string_view text);

}  // namespace runner
