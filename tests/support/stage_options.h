#pragma once

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/value.h"

/// `options` with the defaults of schemas/<schema>.schema.json where they say nothing, as a stage gets them.
inline nlohmann::ordered_json with_defaults(const std::string& schema, nlohmann::ordered_json options) {
  std::ifstream file(std::string(RETORT_SOURCE_DIR) + "/schemas/" + schema + ".schema.json");
  const auto document = nlohmann::ordered_json::parse(file);
  for (const auto& [key, property] : document["properties"].items()) {
    if (!options.contains(key) && property.contains("default") && !property.contains("x-planned"))
      options[key] = property["default"];
    if (property.contains("x-kinds") && options.contains(key)) {
      if (!options[key].contains("kind")) options[key]["kind"] = property["x-default-kind"];
      const std::string kind = options[key]["kind"];
      options[key] = with_defaults(property["x-kinds"].get<std::string>() + "/" + kind, options[key]);
    }
  }
  return options;
}

/// The same as a Value, from a text of JSON.
inline runner::Value stage_options(const std::string& schema, const std::string& json) {
  return runner::from_json(with_defaults(schema, nlohmann::ordered_json::parse(json)));
}
