#include "stages/data/feature_table.h"

#include <algorithm>

#include <torch/types.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/data_description.h"
#include "stages/weights/safetensors.h"

namespace stages {
namespace {

std::string digest(const NamedTensors& tensors) {
  std::vector<NamedTensors::Item> sorted(tensors.begin(), tensors.end());
  std::ranges::sort(sorted, {}, &NamedTensors::Item::first);
  runner::Digest digest;
  for (const auto& [name, tensor] : sorted) {
    const at::Tensor bytes = tensor.contiguous();
    digest.update(name + '\n');
    digest.update({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  return digest.finish();
}

[[noreturn]] void damaged_table(const std::filesystem::path& path, const std::string& why) {
  throw runner::StageError(runner::ErrorCode::kDamagedWeights,
                           "'" + path.string() + "' does not hold these features: " + why)
      .with_help("remove it: features are computed again if there are none");
}

void check(const std::filesystem::path& path, const NamedTensors& tensors, const std::string& name,
           const std::vector<std::int64_t>& shape, at::ScalarType type) {
  if (!tensors.contains(name)) damaged_table(path, "there is no '" + name + "'");
  if (tensors.at(name).sizes() != shape || tensors.at(name).scalar_type() != type) {
    damaged_table(path, "'" + name + "' is of another shape or type");
  }
}

}  // namespace

std::vector<TensorSpec> kept_beside_features(const DatasetDescription& data) {
  std::vector<TensorSpec> kept;
  for (const TensorSpec& spec : data.tensors) {
    if (spec.name != "image") kept.push_back(spec);
  }
  return kept;
}

void write_features(const std::filesystem::path& path, const FeatureTable& table, const DatasetDescription& data) {
  NamedTensors all = table.tensors;
  all.set("present", table.present);
  std::map<std::string, std::string> about = describe_data(data);
  about["format"] = "pt";
  about["sha256"] = digest(all);
  write_safetensors(path, all, about);
}

FeatureTable read_features(const std::filesystem::path& path, const DatasetDescription& data) {
  const Safetensors file = read_safetensors(path);
  const auto recorded = file.metadata.find("sha256");
  if (recorded == file.metadata.end() || recorded->second != digest(file.tensors)) {
    damaged_table(path, "its digest does not match its numbers");
  }
  for (const auto& [key, text] : describe_data(data)) {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end() || found->second != text) damaged_table(path, "its '" + key + "' is not the same");
  }
  check(path, file.tensors, "present", {data.size}, at::kBool);
  if (!file.tensors.contains("features")) damaged_table(path, "there is no 'features'");
  const at::Tensor& features = file.tensors.at("features");
  const bool is_table = features.dim() >= 2 && features.size(0) == data.size &&
                        (features.scalar_type() == at::kFloat || features.scalar_type() == at::kBFloat16);
  if (!is_table) damaged_table(path, "'features' is of another shape or type");
  FeatureTable table{.present = file.tensors.at("present"), .tensors = {{"features", features}}};
  for (const TensorSpec& spec : kept_beside_features(data)) {
    std::vector<std::int64_t> shape = {data.size};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    check(path, file.tensors, spec.name, shape, spec.dtype);
    table.tensors.set(spec.name, file.tensors.at(spec.name));
  }
  return table;
}

}  // namespace stages
