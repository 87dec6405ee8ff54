#include "stages/model/lora_options.h"

#include <cmath>
#include <stdexcept>

#include "runner/shared/stage/config_reader.h"
#include "stages/text/expression.h"

namespace stages {
namespace {

using runner::ErrorCode;

void check_expression(runner::ConfigReader& reader, std::string_view key, const std::string& text) {
  try {
    const Expression compiled(text);
  } catch (const std::invalid_argument& error) {
    reader.fail(key, ErrorCode::kBadPattern, "'" + text + "' is not a regular expression: " + error.what(),
                "write it as Python does, or give a list of names");
  }
}

ModuleSelection read_selection(runner::ConfigReader& reader, std::string_view key) {
  const runner::Value* value = reader.raw(key);
  if (value && value->text()) {
    check_expression(reader, key, *value->text());
    return *value->text();
  }
  std::vector<std::string> names;
  reader.read(key, names);
  return names;
}

/// A mapping from expressions to numbers, in the order written.
template <typename T>
std::vector<std::pair<std::string, T>> read_patterns(runner::ConfigReader& reader, std::string_view key) {
  std::vector<std::pair<std::string, T>> patterns;
  runner::ConfigReader& section = reader.section(key);
  const runner::Value* value = reader.raw(key);
  if (!value || !value->map()) return patterns;
  for (const runner::Entry& entry : *value->map()) {
    T number = 0;
    section.read(entry.key, number);
    check_expression(section, entry.key, entry.key);
    patterns.emplace_back(entry.key, number);
  }
  return patterns;
}

}  // namespace

double lora_scaling(const LoraOptions& options, std::int64_t rank, double alpha) {
  const auto width = static_cast<double>(rank);
  return alpha / (options.rank_stabilized ? std::sqrt(width) : width);
}

LoraOptions read_lora_options(runner::ConfigReader& reader) {
  LoraOptions options;
  reader.read("rank", options.rank);
  reader.read("alpha", options.alpha);
  reader.read("rank_stabilized", options.rank_stabilized);
  reader.read("dropout", options.dropout);
  options.targets = read_selection(reader, "targets");
  options.exclude = read_selection(reader, "exclude");
  std::optional<std::vector<std::int64_t>> layers;
  reader.read("layers", layers);
  std::optional<std::string> layers_pattern;
  reader.read("layers_pattern", layers_pattern);
  if (layers_pattern) check_expression(reader, "layers_pattern", *layers_pattern);
  if (layers) {
    options.layers = *layers;
    // peft's own rule without a pattern misses numbers in the second part of a name: timm's blocks.0.attn.
    options.layers_pattern = {layers_pattern.value_or("[^.]*")};
  }
  options.rank_pattern = read_patterns<std::int64_t>(reader, "rank_pattern");
  options.alpha_pattern = read_patterns<double>(reader, "alpha_pattern");
  reader.read("modules_to_save", options.modules_to_save);
  options.bias = runner::choice<LoraBias>(
      reader, "bias", {{"none", LoraBias::kNone}, {"all", LoraBias::kAll}, {"lora_only", LoraBias::kAdapted}});
  options.initialization = runner::choice<LoraInitialization>(
      reader, "initialization",
      {{"kaiming", LoraInitialization::kKaiming}, {"gaussian", LoraInitialization::kGaussian}});
  return options;
}

}  // namespace stages
