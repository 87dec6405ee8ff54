#pragma once

#include <string>

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "tests/support/program.h"

// Checks that the output of `--json` has the shape described in schemas/output.

/// The errors of `value` according to the schema in `file` of schemas/output; empty if it is valid.
inline std::string complaints_of(const std::string& file, const nlohmann::json& value) {
  const auto description =
      nlohmann::json::parse(file_text(RETORT_SOURCE_DIR "/schemas/output/" + file));
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(description), schema);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema, valijson::adapters::NlohmannJsonAdapter(value),
                                     &results))
    return "";
  std::string text;
  for (const auto& error : results) {
    for (const std::string& step : error.context) text += step;
    text += ": " + error.description + '\n';
  }
  return file + ": " + text;
}

/// The errors of `document` according to the envelope and the schema of the result that it names.
inline std::string output_complaints(const nlohmann::json& document) {
  std::string text = complaints_of("envelope.json", document);
  if (!text.empty() || !document.contains("result")) return text;
  const std::string shape = document["schema"];
  const std::string file = shape.substr(0, shape.find('/')) + ".json";
  const auto description =
      nlohmann::json::parse(file_text(RETORT_SOURCE_DIR "/schemas/output/" + file));
  return description["$id"] == shape ? complaints_of(file, document["result"])
                                     : file + " describes another shape";
}
