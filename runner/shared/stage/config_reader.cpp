#include "runner/shared/stage/config_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

constexpr std::array<std::string_view, 4> kEveryStagesKeys = {"kind", "name", "inputs", "foreach"};

template <typename T>
constexpr std::string_view kExpected = "a value";
template <>
constexpr std::string_view kExpected<bool> = "a boolean";
template <>
constexpr std::string_view kExpected<std::int64_t> = "an integer";
template <>
constexpr std::string_view kExpected<double> = "a number";
template <>
constexpr std::string_view kExpected<std::string> = "a string";
template <>
constexpr std::string_view kExpected<std::vector<std::int64_t>> = "a list of integers";
template <>
constexpr std::string_view kExpected<std::vector<double>> = "a list of numbers";
template <>
constexpr std::string_view kExpected<std::vector<std::string>> = "a list of strings";

// Each overload returns whether `value` is a T, and writes `field` only if it is.
bool store(const Value& value, Value& field) {
  field = value;
  return true;
}

bool store(const Value& value, bool& field) {
  const auto* flag = std::get_if<bool>(&value.data);
  if (flag) field = *flag;
  return flag != nullptr;
}

bool store(const Value& value, std::int64_t& field) {
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
    field = *integer;
    return true;
  }
  // JSON Schema treats 3.0 as an integer, so a double may arrive here.
  const auto* number = std::get_if<double>(&value.data);
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!number || std::trunc(*number) != *number || *number < -kLimit || *number >= kLimit)
    return false;
  field = static_cast<std::int64_t>(*number);
  return true;
}

bool store(const Value& value, double& field) {
  if (const auto* number = std::get_if<double>(&value.data)) field = *number;
  else if (const auto* integer = std::get_if<std::int64_t>(&value.data))
    field = static_cast<double>(*integer);
  else if (const auto number = value.text() ? non_finite(*value.text()) : std::nullopt)
    field = *number;
  else return false;
  return true;
}

bool store(const Value& value, std::string& field) {
  if (value.text()) field = *value.text();
  return value.text() != nullptr;
}

template <typename T>
bool store(const Value& value, std::vector<T>& field) {
  if (!value.list()) return false;
  std::vector<T> items(value.list()->size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!store((*value.list())[i], items[i])) return false;
  }
  field = std::move(items);
  return true;
}

template <typename T>
struct Expected {
  static std::string text() { return std::string(kExpected<T>); }
};
template <typename T>
struct Expected<std::optional<T>> {
  static std::string text() { return Expected<T>::text() + " or null"; }
};

template <typename T>
bool store(const Value& value, std::optional<T>& field) {
  if (value.is_null()) {
    field.reset();
    return true;
  }
  T inner{};
  if (!store(value, inner)) return false;
  field = std::move(inner);
  return true;
}

const Value& empty_mapping() {
  static const Value kEmpty{Value::Map{}, {}};
  return kEmpty;
}

}  // namespace

ConfigReader::ConfigReader(const Value& config, std::string pointer)
    : config_(config.map() ? config : empty_mapping()), pointer_(std::move(pointer)) {}

template <typename T>
void ConfigReader::read(std::string_view key, T& field) {
  const Value* value = raw(key);
  if (!value) return fail(key, ErrorCode::kMissingKey, "missing key '" + std::string(key) + "'");
  if (store(*value, field)) return;
  fail(key, ErrorCode::kWrongType,
       "'" + std::string(key) + "' must be " + Expected<T>::text() + ", not " + describe(*value));
}

ConfigReader& ConfigReader::section(std::string_view key) {
  const std::string pointer = pointer_to(pointer_, key);
  const auto known =
      std::ranges::find(sections_, pointer, [](const auto& section) { return section->pointer_; });
  if (known != sections_.end()) return **known;
  const Value* value = raw(key);
  if (!value) {
    fail(key, ErrorCode::kMissingKey, "missing key '" + std::string(key) + "'");
  } else if (!value->map()) {
    fail(key, ErrorCode::kWrongType,
         "'" + std::string(key) + "' must be a mapping, not " + describe(*value));
  }
  return add_section(pointer, value ? *value : empty_mapping());
}

std::vector<ConfigReader*> ConfigReader::sections(std::string_view key) {
  const auto is_mapping = [](const Value& item) { return item.map() != nullptr; };
  const Value* value = raw(key);
  if (!value) {
    fail(key, ErrorCode::kMissingKey, "missing key '" + std::string(key) + "'");
    return {};
  }
  if (!value->list() || !std::ranges::all_of(*value->list(), is_mapping)) {
    fail(key, ErrorCode::kWrongType,
         "'" + std::string(key) + "' must be a list of mappings, not " + describe(*value));
    return {};
  }
  const std::string pointer = pointer_to(pointer_, key);
  std::vector<ConfigReader*> result;
  for (const Value& item : *value->list()) {
    result.push_back(&add_section(pointer_to(pointer, std::to_string(result.size())), item));
  }
  return result;
}

ConfigReader& ConfigReader::add_section(const std::string& pointer, const Value& value) {
  sections_.push_back(std::make_unique<ConfigReader>(value, pointer));
  sections_.back()->is_section_ = true;
  return *sections_.back();
}

const Value* ConfigReader::raw(std::string_view key) {
  read_.emplace(key);
  return config_.find(key);
}

void ConfigReader::fail(std::string_view key, ErrorCode code, std::string message,
                        std::string help) {
  const Value* value = config_.find(key);
  errors_.push_back({code, value ? value->where : config_.where, pointer_to(pointer_, key),
                     std::move(message), std::move(help)});
}

Diagnostics ConfigReader::finish() {
  Diagnostics errors = errors_;
  for (const Entry& entry : *config_.map()) {
    const bool is_common =
        !is_section_ && std::ranges::find(kEveryStagesKeys, entry.key) != kEveryStagesKeys.end();
    if (is_common || read_.contains(entry.key)) continue;
    errors.push_back(
        {ErrorCode::kUnreadOption, entry.key_where, pointer_to(pointer_, entry.key),
         "nothing reads '" + entry.key + "'",
         "the schema declares an option that this stage ignores: this is a bug in Retort"});
  }
  for (const auto& section : sections_) {
    const Diagnostics found = section->finish();
    errors.insert(errors.end(), found.begin(), found.end());
  }
  return errors;
}

template void ConfigReader::read(std::string_view, bool&);
template void ConfigReader::read(std::string_view, std::int64_t&);
template void ConfigReader::read(std::string_view, double&);
template void ConfigReader::read(std::string_view, std::string&);
template void ConfigReader::read(std::string_view, Value&);
template void ConfigReader::read(std::string_view, std::vector<std::int64_t>&);
template void ConfigReader::read(std::string_view, std::vector<double>&);
template void ConfigReader::read(std::string_view, std::vector<std::string>&);
template void ConfigReader::read(std::string_view, std::optional<bool>&);
template void ConfigReader::read(std::string_view, std::optional<std::int64_t>&);
template void ConfigReader::read(std::string_view, std::optional<double>&);
template void ConfigReader::read(std::string_view, std::optional<std::string>&);
template void ConfigReader::read(std::string_view, std::optional<Value>&);
template void ConfigReader::read(std::string_view, std::optional<std::vector<std::int64_t>>&);
template void ConfigReader::read(std::string_view, std::optional<std::vector<double>>&);
template void ConfigReader::read(std::string_view, std::optional<std::vector<std::string>>&);

}  // namespace runner
