#include "stages/train/validation_scores.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/shared/value/parse_json.h"

namespace stages {

std::string validation_text(const Means& validation) {
  nlohmann::json scores = nlohmann::json::object();
  const auto add = [&](const std::string& name, double value) {
    if (std::isfinite(value)) scores[name] = value;
  };
  add("loss", validation.loss);
  for (const auto& [name, value] : validation.scores) add(name, value);
  return scores.dump();
}

std::map<std::string, double> validation_scores(const std::map<std::string, std::string>& about) {
  const auto found = about.find("validation");
  if (found == about.end()) return {};
  const auto json = runner::parse_json<nlohmann::json>(found->second);
  std::map<std::string, double> scores;
  if (!json.is_object()) return scores;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) scores.emplace(name, value.get<double>());
  }
  return scores;
}

}  // namespace stages
