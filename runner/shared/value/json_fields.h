#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/value/value.h"

namespace runner {

/// Reads the members of a JSON object written by one of Retort's programs. Each member is requested
/// with its type. If it is missing or has a different type, throws std::runtime_error; `what` is
/// the subject of the message:
///
///   const JsonFields state(json, "the schedule's state");
///   // "the schedule's state is not a JSON object"
///   const std::int64_t step = state.count("step");
///   // "the schedule's state has no 'step'"
///   // "the schedule's state has a 'step' that is not a count"
template <typename Json>
class JsonFields {
 public:
  /// `json` is borrowed.
  JsonFields(const Json& json, std::string what);

  /// Throws if the object has a member that is not in `keys`.
  void only(const std::vector<std::string_view>& keys) const;
  bool has(std::string_view key) const { return json_.contains(key); }
  const Json& at(std::string_view key) const;
  std::string text(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  std::int64_t count(std::string_view key) const;  ///< an integer >= 0
  std::uint64_t seed(std::string_view key) const;  ///< a 64-bit unsigned integer
  double number(std::string_view key) const;       ///< a number, or "nan", "inf" or "-inf"
                                                   ///< (number_json())
  const Json& list(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  const Json& object(std::string_view key) const;

  /// Throws the error for a member that is not of `type`, such as "a count".
  [[noreturn]] void fail(std::string_view key, const std::string& type) const;

 private:
  const Json& json_;
  const std::string what_;
};

extern template class JsonFields<nlohmann::json>;
extern template class JsonFields<nlohmann::ordered_json>;

/// Returns `value` as JSON. JSON has no NaN and no infinities, so they become "nan", "inf" and
/// "-inf".
nlohmann::ordered_json number_json(double value);

/// The inverse of number_json(); nullopt for any other JSON.
std::optional<double> number_from_json(const nlohmann::ordered_json& json);

/// Returns the number that "nan", "inf" or "-inf" stands for; nullopt for any other text.
std::optional<double> non_finite(std::string_view text);

/// Serializes to_json(value) without spaces and with sorted mapping keys, so the text does not
/// depend on how the recipe was written. Its digest identifies recipes, so the format must never
/// change. Throws nlohmann::json::exception if a string is not UTF-8.
std::string sorted_json(const Value& value);

}  // namespace runner
