#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/types.h>
#include <nlohmann/json.hpp>

/// Every tensor of a recorded safetensors file, by name. Does not validate the file, so only for
/// recorded cases. Types: F64 F32 F16 BF16 I64 I32 U8 BOOL. Throws std::runtime_error on another,
/// or when the file cannot be read.
inline std::map<std::string, at::Tensor> safetensors_fixture(const std::filesystem::path& path) {
  static const std::map<std::string, at::ScalarType> kTypes = {
      {"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
      {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
      {"U8", torch::kUInt8},      {"BOOL", torch::kBool}};
  std::ifstream file(path, std::ios::binary);
  std::uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  if (!file) throw std::runtime_error("cannot read '" + path.string() + "'");
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));

  std::map<std::string, at::Tensor> tensors;
  const auto entries = nlohmann::json::parse(header);  // must outlive items(), which refers to it
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") continue;
    const auto type = kTypes.find(entry.at("dtype").get<std::string>());
    if (type == kTypes.end()) throw std::runtime_error("'" + name + "' has an unexpected type");
    const at::Tensor tensor =
        torch::empty(entry.at("shape").get<std::vector<std::int64_t>>(), type->second);
    const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
    const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
    if (end - begin != tensor.nbytes()) throw std::runtime_error("'" + name + "' has another size");
    file.seekg(static_cast<std::streamoff>(sizeof header_bytes + header_bytes + begin));
    file.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    if (!file) throw std::runtime_error("'" + name + "' is cut off");
    tensors[name] = tensor;
  }
  return tensors;
}
