#include "stages/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include <c10/core/ScalarType.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

using nlohmann::json;

constexpr std::size_t kMostDimensions = 64;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kTypes = {{
    {"BF16", at::kBFloat16},
    {"BOOL", at::kBool},
    {"F16", at::kHalf},
    {"F32", at::kFloat},
    {"F64", at::kDouble},
    {"I16", at::kShort},
    {"I32", at::kInt},
    {"I64", at::kLong},
    {"I8", at::kChar},
    {"U8", at::kByte},
}};

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

/// A text from the file as it may stand in a message.
std::string shown(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text.size() <= 80 ? text : text.substr(0, 80) + "…";
}

[[noreturn]] void refuse(const std::string& tensor, const std::string& what) {
  refuse("the tensor '" + shown(tensor) + "' " + what);
}

/// Goes through a header and refuses what the library would let pass: a name that stands twice in one object, and
/// nesting of a depth that no header has. In time that grows with the text, which the library's own callbacks do not.
class HeaderWatch final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return descend(); }
  bool start_array(std::size_t) override { return descend(); }
  bool end_object() override { return ascend(); }
  bool end_array() override { return ascend(); }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) refuse("the name '" + shown(name) + "' stands there twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    refuse("its header is not JSON");
  }

 private:
  bool descend() {
    constexpr std::size_t kDepth = 8;
    if (names_.size() == kDepth) refuse("its header is nested too deeply");
    names_.emplace_back();
    return true;
  }
  bool ascend() {
    names_.pop_back();
    return true;
  }

  std::vector<std::unordered_set<std::string>> names_;
};

json parse_json(std::string_view text) {
  HeaderWatch watch;
  json::sax_parse(text, &watch);
  try {
    return json::parse(text);
  } catch (const json::exception&) {
    refuse("its header is not JSON");  // a number beyond all bounds
  }
}

std::optional<std::int64_t> count(const json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) return {};
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> parse_shape(const std::string& name, const json& value) {
  if (!value.is_array()) refuse(name, "has a shape that is no list");
  if (value.size() > kMostDimensions) refuse(name, "has " + std::to_string(value.size()) + " dimensions");
  std::vector<std::int64_t> shape;
  for (const json& item : value) {
    const auto size = count(item);
    if (!size) refuse(name, "has the size " + shown(item.dump()) + " in its shape");
    shape.push_back(*size);
  }
  return shape;
}

std::int64_t bytes(const SafetensorsEntry& entry) {
  auto product = static_cast<std::int64_t>(c10::elementSize(entry.dtype));
  bool empty = false;
  for (const std::int64_t size : entry.shape) {
    // A zero empties the tensor, but its other sizes must still be ones that can be counted with.
    empty = empty || size == 0;
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product)) refuse(entry.name, "is too large");
  }
  return empty ? 0 : product;
}

SafetensorsEntry parse_entry(const std::string& name, const json& value, std::int64_t data_bytes) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    refuse(name, "needs exactly dtype, shape and data_offsets");
  }
  const std::string type = value["dtype"].is_string() ? value["dtype"].get<std::string>() : value["dtype"].dump();
  const auto known = std::ranges::find(kTypes, type, &std::pair<std::string_view, at::ScalarType>::first);
  if (known == kTypes.end()) refuse(name, "has the unknown type '" + shown(type) + "'");

  SafetensorsEntry entry{.name = name, .dtype = known->second, .shape = parse_shape(name, value["shape"])};
  const json& offsets = value["data_offsets"];
  const bool pair = offsets.is_array() && offsets.size() == 2;
  const auto begin = pair ? count(offsets[0]) : std::nullopt, end = pair ? count(offsets[1]) : std::nullopt;
  if (!begin || !end || *begin > *end) refuse(name, "has data_offsets that are no range");
  if (*end > data_bytes) {
    refuse(name, "ends at byte " + std::to_string(*end) + " of " + std::to_string(data_bytes));
  }
  if (*end - *begin != bytes(entry)) {
    refuse(name, "needs " + std::to_string(bytes(entry)) + " bytes and has " + std::to_string(*end - *begin));
  }
  entry.begin = *begin;
  entry.end = *end;
  return entry;
}

std::map<std::string, std::string> parse_metadata(const json& value) {
  if (!value.is_object()) refuse("its __metadata__ is no mapping");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse("its __metadata__ '" + shown(key) + "' is no text");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

std::string to_text(const SafetensorsHeader& header) {
  json document = json::object();  // sorts its keys
  if (!header.metadata.empty()) document["__metadata__"] = header.metadata;
  for (const SafetensorsEntry& entry : header.entries) {
    const auto known = std::ranges::find(kTypes, entry.dtype, &std::pair<std::string_view, at::ScalarType>::second);
    if (known == kTypes.end()) refuse(entry.name, "is of a type that safetensors files do not hold");
    document[entry.name] = {
        {"dtype", known->first}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = document.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes) {
  if (!text.starts_with('{')) refuse("its header does not begin with '{'");
  const json document = parse_json(text);
  SafetensorsHeader header;
  for (const auto& [name, value] : document.items()) {
    if (name == "__metadata__") header.metadata = parse_metadata(value);
    else header.entries.push_back(parse_entry(name, value, data_bytes));
  }
  std::ranges::sort(header.entries, {}, [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  std::int64_t reached = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin < reached) refuse(entry.name, "overlaps the one before it");
    if (entry.begin > reached) refuse(entry.name, "leaves a hole before it");
    reached = entry.end;
  }
  if (reached != data_bytes) refuse(std::to_string(data_bytes - reached) + " bytes at its end belong to no tensor");
  return header;
}

}  // namespace stages
