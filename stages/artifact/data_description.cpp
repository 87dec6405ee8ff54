#include "stages/artifact/data_description.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace stages {
namespace {

using nlohmann::json;

// More than any sample has; what lies above could only be meant to take memory.
constexpr std::size_t kMaxTensors = 1000, kMaxDimensions = 16, kMaxName = 1000;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;
constexpr std::size_t kMaxTransform = 64 << 10;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 9> kTypes = {{{"bool", at::kBool},
                                                                                {"uint8", at::kByte},
                                                                                {"int8", at::kChar},
                                                                                {"int32", at::kInt},
                                                                                {"int64", at::kLong},
                                                                                {"float16", at::kHalf},
                                                                                {"bfloat16", at::kBFloat16},
                                                                                {"float32", at::kFloat},
                                                                                {"float64", at::kDouble}}};

[[noreturn]] void refuse(const std::string& key, const std::string& what) {
  throw std::invalid_argument("its '" + key + "' " + what);
}

json parsed(const std::map<std::string, std::string>& about, const std::string& key) {
  const auto found = about.find(key);
  if (found == about.end()) refuse(key, "is missing");
  json list = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) refuse(key, "is not a list");
  return list;
}

json to_json(const TensorSpec& tensor) {
  const auto* const type = std::ranges::find(kTypes, tensor.dtype, [](const auto& item) { return item.second; });
  if (type == kTypes.end()) throw std::invalid_argument("samples of a type that has no name");
  return {{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", type->first}};
}

TensorSpec tensor_from(const json& json) {
  if (!json.is_object() || !json.contains("name") || !json.contains("shape") || !json.contains("dtype")) {
    refuse("tensors", "lacks a name, a shape or a type");
  }
  TensorSpec tensor;
  if (!json["name"].is_string() || json["name"].get_ref<const std::string&>().size() > kMaxName) {
    refuse("tensors", "has an invalid name");
  }
  tensor.name = json["name"];
  const auto* const type = std::ranges::find_if(kTypes, [&](const auto& item) { return json["dtype"] == item.first; });
  if (type == kTypes.end()) refuse("tensors", "has an unknown type");
  tensor.dtype = type->second;
  if (!json["shape"].is_array() || json["shape"].size() > kMaxDimensions) refuse("tensors", "has an invalid shape");
  std::int64_t elements = 1;
  for (const auto& length : json["shape"]) {
    const bool is_length = length.is_number_unsigned() && length.get<std::uint64_t>() >= 1 &&
                           length.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxElements / elements);
    if (!is_length) refuse("tensors", "has an invalid shape");
    tensor.shape.push_back(length.get<std::int64_t>());
    elements *= tensor.shape.back();
  }
  return tensor;
}

}  // namespace

std::map<std::string, std::string> describe_data(const DatasetDescription& data) {
  json tensors = json::array();
  for (const TensorSpec& tensor : data.tensors) tensors.push_back(to_json(tensor));
  // Names come from folders, which need not be UTF-8.
  const auto text = [](const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); };
  return {{"classes", text(data.classes)}, {"tensors", text(tensors)}, {"transform", data.transform}};
}

DatasetDescription described_data(const std::map<std::string, std::string>& about) {
  DatasetDescription data;
  for (const json& name : parsed(about, "classes")) {
    if (!name.is_string()) refuse("classes", "has an invalid name");
    data.classes.push_back(name);
  }
  const json tensors = parsed(about, "tensors");
  if (tensors.size() > kMaxTensors) refuse("tensors", "is too long");
  for (const json& tensor : tensors) data.tensors.push_back(tensor_from(tensor));
  const auto transform = about.find("transform");
  if (transform == about.end()) refuse("transform", "is missing");
  if (transform->second.size() > kMaxTransform) refuse("transform", "is too long");
  data.transform = transform->second;
  return data;
}

}  // namespace stages
