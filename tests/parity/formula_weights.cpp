#include "tests/parity/formula_weights.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include <torch/types.h>

#include "tests/support/shared_data.h"

namespace {

namespace fs = std::filesystem;
using stages::NamedTensors;

bool has_part(const std::string& name, const char* part) { return name.find(part) != name.npos; }

/// The rule "hash-v1", which uses the library's own names; `number` also counts integer tensors.
at::Tensor hash_weight(const std::string& name, std::uint64_t seed, std::int64_t number,
                       at::IntArrayRef shape) {
  const at::Tensor u = hash_uniform(seed, static_cast<std::uint64_t>(number), shape);
  const double inputs = static_cast<double>(u.numel()) / static_cast<double>(shape[0]);
  const auto has = [&](const char* part) { return has_part(name, part); };
  if (name.ends_with("running_var")) return 1 + 0.5 * u.abs();
  if (has("cls_token") || has("class_embedding") || has("pos_embed") || has("position_embedding"))
    return 0.04 * u;
  if (has("patch_embed"))
    return name.ends_with("bias") ? 0.01 * u : 0.04 * std::sqrt(3 / inputs) * u;
  if (shape.size() == 4) return std::sqrt(6 / inputs) * u;
  if (shape.size() >= 2) return std::sqrt(3 / inputs) * u;
  return name.ends_with("weight") ? 1 + 0.1 * u : 0.1 * u;
}

/// The rule "sine-2.2"; `number` does not count integer tensors.
at::Tensor sine_weight(const std::string& name, std::int64_t number, at::IntArrayRef shape) {
  const std::int64_t count = c10::multiply_integers(shape);
  const at::Tensor s =
      (torch::arange(count, at::kDouble) * 0.37 + static_cast<double>(number)).sin().view(shape);
  const double inputs = static_cast<double>(count) / static_cast<double>(shape[0]);
  if (name.ends_with("running_var")) return 1 + 0.1 * s.abs();
  const bool is_norm = has_part(name, "bn") || has_part(name, "downsample.1");
  if (is_norm && name.ends_with("weight")) return 1 + 0.1 * s;
  return shape.size() >= 2 ? s * std::sqrt(2 / inputs) : 0.05 * s;
}

fs::path keys_of(const FullModel& model, const fs::path& folder) {
  const std::string name = "keys/" + model.library + "__" + model.name + ".txt";
  const fs::path beside = folder / name;
  return fs::exists(beside) ? beside : shared_data("cases/parity/fullsize/" + name);
}

}  // namespace

FullModel full_model(const RecordedCase& recorded) {
  if (!recorded.json.contains("model") || !recorded.json["model"].is_string()) return {};
  const std::string text = recorded.json["model"];
  const std::size_t colon = text.find(':');
  return {text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 1)};
}

NamedTensors formula_weights(const RecordedCase& recorded) {
  const fs::path keys = keys_of(full_model(recorded), recorded.path.parent_path());
  const bool is_sine = recorded.json.at("rule") == "sine-2.2";
  const auto seed = recorded.json.at("seed").get<std::uint64_t>();
  std::ifstream file(keys);
  NamedTensors result;
  std::string line;
  std::int64_t floats = 0;
  for (std::int64_t number = 0; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string key, sizes;
    words >> key >> sizes;
    if (key.starts_with("text_") || sizes == "-") continue;
    std::vector<std::int64_t> shape;
    std::istringstream numbers(sizes);
    for (std::string size; std::getline(numbers, size, ',');) shape.push_back(std::stoll(size));
    const at::Tensor weight =
        is_sine ? sine_weight(key, floats, shape) : hash_weight(key, seed, number, shape);
    result.set(key, weight.to(at::kFloat));
    ++floats;
  }
  EXPECT_GT(result.size(), 0u) << keys;
  return result;
}

void expect_recorded(const nlohmann::json& expected, const at::Tensor& actual,
                     const std::string& name) {
  EXPECT_EQ(expected.at("shape").get<std::vector<std::int64_t>>(), actual.sizes().vec()) << name;
  const double norm = expected.at("norm");
  EXPECT_NEAR(actual.norm().item<double>(), norm, 1e-9 * norm) << name;
  EXPECT_NEAR(actual.mean().item<double>(), expected.at("mean"), 1e-9) << name;
  const at::Tensor flat = actual.flatten();
  for (std::size_t i = 0; i < expected.at("first").size(); ++i) {
    EXPECT_NEAR(flat[static_cast<std::int64_t>(i)].item<double>(), expected.at("first")[i], 1e-8)
        << name << " " << i;
  }
}
