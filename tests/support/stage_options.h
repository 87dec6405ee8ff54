#pragma once

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/value/value.h"

/// The schema at a path below schemas/, or at a definition in it:
/// "images.schema.json#/definitions/resize".
inline nlohmann::ordered_json schema_at(const std::string& address) {
  using Json = nlohmann::ordered_json;
  const auto hash = std::min(address.find('#'), address.size());
  std::ifstream file(std::string(RETORT_SOURCE_DIR) + "/schemas/" + address.substr(0, hash));
  return Json::parse(file).at(
      Json::json_pointer(address.substr(std::min(hash + 1, address.size()))));
}

/// A property with the definition that it refers to; keywords next to a $ref take precedence.
/// `file` is the file that contains it, and is set to the file that it refers to.
inline nlohmann::ordered_json follow(nlohmann::ordered_json property, std::string& file) {
  while (property.contains("$ref")) {
    const std::string written = property["$ref"];
    const std::string address = written.starts_with('#') ? file + written : written;
    nlohmann::ordered_json target = schema_at(address);
    file = address.substr(0, address.find('#'));
    property.erase("$ref");
    target.update(property);
    property = std::move(target);
  }
  return property;
}

inline nlohmann::ordered_json followed(nlohmann::ordered_json property, std::string file = "") {
  return follow(std::move(property), file);
}

/// `options` with the defaults of `schema`, which is in `file`, for missing keys, as a stage
/// receives them.
inline nlohmann::ordered_json with_defaults(const nlohmann::ordered_json& schema,
                                            nlohmann::ordered_json options,
                                            const std::string& file = "") {
  const auto properties = schema.value("properties", nlohmann::ordered_json::object());
  for (const auto& [key, written] : properties.items()) {
    std::string place = file;
    const nlohmann::ordered_json property = follow(written, place);
    if (!options.contains(key) && property.contains("default")) options[key] = property["default"];
    if (!options.contains(key) || !options[key].is_object()) continue;
    nlohmann::ordered_json inside =
        property.contains("anyOf") ? follow(property["anyOf"][1], place) : property;
    if (inside.contains("x-kinds")) {
      if (!options[key].contains("kind")) options[key]["kind"] = inside["x-default-kind"];
      const std::string folder = inside["x-kinds"], kind = options[key]["kind"];
      place = folder + "/" + kind + ".schema.json";
      inside = schema_at(place);
    }
    options[key] = with_defaults(inside, options[key], place);
  }
  return options;
}

/// The options of a kind, such as "data/image_folder", from a JSON text, with its defaults.
inline runner::Value stage_options(const std::string& kind, const std::string& json) {
  return runner::from_json(with_defaults(schema_at(kind + ".schema.json"),
                                         nlohmann::ordered_json::parse(json),
                                         kind + ".schema.json"));
}
