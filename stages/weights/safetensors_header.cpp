#include "stages/weights/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/weights/strict_json.h"

namespace stages {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTensorDimensions = 64;

struct TypeInfo {
  SafetensorsType type;
  std::string_view name;
  std::int64_t bits;
};

using enum SafetensorsType;
constexpr std::array kNamedTypes = {
    TypeInfo{kBool, "BOOL", 8},
    TypeInfo{kF4, "F4", 4},
    TypeInfo{kF6E2M3, "F6_E2M3", 6},
    TypeInfo{kF6E3M2, "F6_E3M2", 6},
    TypeInfo{kU8, "U8", 8},
    TypeInfo{kI8, "I8", 8},
    TypeInfo{kF8E5M2, "F8_E5M2", 8},
    TypeInfo{kF8E4M3, "F8_E4M3", 8},
    TypeInfo{kF8E8M0, "F8_E8M0", 8},
    TypeInfo{kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    TypeInfo{kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    TypeInfo{kI16, "I16", 16},
    TypeInfo{kU16, "U16", 16},
    TypeInfo{kF16, "F16", 16},
    TypeInfo{kBF16, "BF16", 16},
    TypeInfo{kI32, "I32", 32},
    TypeInfo{kU32, "U32", 32},
    TypeInfo{kF32, "F32", 32},
    TypeInfo{kC64, "C64", 64},
    TypeInfo{kF64, "F64", 64},
    TypeInfo{kI64, "I64", 64},
    TypeInfo{kU64, "U64", 64},
};

const TypeInfo& info(SafetensorsType type) { return kNamedTypes[static_cast<std::size_t>(type)]; }

[[noreturn]] void refuse_header(const std::string& what) { throw std::invalid_argument(what); }

/// Returns text from the file in a form that is safe for messages.
std::string shown(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text.size() <= 80 ? text : text.substr(0, 80) + "…";
}

[[noreturn]] void refuse_header(const std::string& tensor, const std::string& what) {
  refuse_header("the tensor '" + shown(tensor) + "' " + what);
}

std::optional<std::int64_t> count(const json& value) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    return {};
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> parse_shape(const std::string& name, const json& value) {
  if (!value.is_array()) refuse_header(name, "has a shape that is not a list");
  if (value.size() > kMostTensorDimensions)
    refuse_header(name, "has " + std::to_string(value.size()) + " dimensions");
  std::vector<std::int64_t> shape;
  for (const json& item : value) {
    const auto size = count(item);
    if (!size) refuse_header(name, "has the size " + shown(item.dump()) + " in its shape");
    shape.push_back(*size);
  }
  return shape;
}

std::int64_t bytes(const SafetensorsEntry& entry) {
  std::int64_t bits = info(entry.type).bits;
  bool empty = false;
  for (const std::int64_t size : entry.shape) {
    // A zero makes the tensor empty, but the other sizes must not overflow either.
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bits, std::max<std::int64_t>(size, 1), &bits))
      refuse_header(entry.name, "is too large");
  }
  if (!empty && bits % 8 != 0) refuse_header(entry.name, "does not end on a byte boundary");
  return empty ? 0 : bits / 8;
}

SafetensorsEntry parse_entry(const std::string& name, const json& value, std::int64_t data_bytes) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    refuse_header(name, "needs exactly dtype, shape and data_offsets");
  }
  const std::string type =
      value["dtype"].is_string() ? value["dtype"].get<std::string>() : value["dtype"].dump();
  const auto known = std::ranges::find(kNamedTypes, type, &TypeInfo::name);
  if (known == kNamedTypes.end()) refuse_header(name, "has the unknown type '" + shown(type) + "'");

  SafetensorsEntry entry{
      .name = name, .type = known->type, .shape = parse_shape(name, value["shape"])};
  const json& offsets = value["data_offsets"];
  const bool pair = offsets.is_array() && offsets.size() == 2;
  const auto begin = pair ? count(offsets[0]) : std::nullopt,
             end = pair ? count(offsets[1]) : std::nullopt;
  if (!begin || !end || *begin > *end) refuse_header(name, "has data_offsets that are not a range");
  if (*end > data_bytes) {
    refuse_header(name,
                  "ends at byte " + std::to_string(*end) + " of " + std::to_string(data_bytes));
  }
  if (*end - *begin != bytes(entry)) {
    refuse_header(name, "needs " + std::to_string(bytes(entry)) + " bytes but has " +
                            std::to_string(*end - *begin));
  }
  entry.begin = *begin;
  entry.end = *end;
  return entry;
}

std::map<std::string, std::string> parse_metadata(const json& value) {
  if (!value.is_object()) refuse_header("its __metadata__ is not a mapping");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse_header("its __metadata__ '" + shown(key) + "' is not a string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

std::string_view name(SafetensorsType type) { return info(type).name; }

std::string to_text(const SafetensorsHeader& header) {
  auto document = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) document["__metadata__"] = header.metadata;
  for (const SafetensorsEntry& entry : header.entries) {
    // Appends without a lookup, which takes linear time in an ordered object.
    document.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        entry.name, nlohmann::ordered_json{{"dtype", name(entry.type)},
                                           {"shape", entry.shape},
                                           {"data_offsets", {entry.begin, entry.end}}});
  }
  std::string text = document.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes) {
  if (!text.starts_with('{')) refuse_header("its header does not begin with '{'");
  constexpr std::size_t kDepth = 8;
  const json document = runner::parse_strict_json(text, kDepth, "its header");
  SafetensorsHeader header;
  for (const auto& [name, value] : document.items()) {
    if (name == "__metadata__") header.metadata = parse_metadata(value);
    else header.entries.push_back(parse_entry(name, value, data_bytes));
  }
  std::ranges::sort(header.entries, {},
                    [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  std::int64_t reached = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin < reached) refuse_header(entry.name, "overlaps the tensor before it");
    if (entry.begin > reached) refuse_header(entry.name, "leaves a gap before it");
    reached = entry.end;
  }
  if (reached != data_bytes)
    refuse_header(std::to_string(data_bytes - reached) + " bytes at its end belong to no tensor");
  return header;
}

}  // namespace stages
