#include "tests/parity/recorded_case.h"

#include <algorithm>

std::string kind_of(const RecordedCase& recorded) {
  const nlohmann::json& json = recorded.json;
  const nlohmann::json& about =
      json.contains("case") && json["case"].is_object() ? json["case"] : json;
  for (const char* key : {"kind", "family", "model"}) {
    if (about.contains(key) && about[key].is_string()) return about[key];
  }
  return "";
}

at::Tensor hash_uniform(std::uint64_t seed, std::uint64_t index, at::IntArrayRef shape) {
  const at::Tensor result = torch::empty(shape, torch::kFloat64);
  double* values = result.data_ptr<double>();
  const std::uint64_t start =
      seed * 0x9E3779B97F4A7C15 + index * 0xBF58476D1CE4E5B9 + 0x9E3779B97F4A7C15;
  for (std::int64_t j = 0; j < result.numel(); ++j) {
    std::uint64_t z = start + static_cast<std::uint64_t>(j);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    values[j] = static_cast<double>(z >> 40) * 0x1p-23 - 1;
  }
  return result;
}

void Expectation::expect_near(const std::string& name, const at::Tensor& actual) {
  ++compared_[key(name)];
  const at::Tensor& expected = tensors_.at(key(name));
  ASSERT_EQ(expected.sizes(), actual.sizes()) << name;
  const double size = std::max(1.0, expected.abs().max().item<double>());
  EXPECT_LT((expected - actual).abs().max().item<double>(), tolerance_ * size) << key(name);
}

std::vector<std::string> Expectation::uncompared() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (name.starts_with(key("")) && !compared_.contains(name)) names.push_back(name);
  }
  return names;
}
