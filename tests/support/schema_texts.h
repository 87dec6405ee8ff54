#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"

/// Schema files for a test, in addition to the recipe's and the common one as shipped.
struct SchemaTexts {
  std::deque<std::pair<std::string, std::string>> texts;
  std::vector<runner::SchemaFile> files;
};

inline SchemaTexts schema_texts(std::deque<std::pair<std::string, std::string>> texts) {
  SchemaTexts result{std::move(texts), {}};
  for (const auto& file : runner::embedded_schemas()) {
    // The schema of the recipe, and the files that it refers to.
    if (file.path.find('/') == file.path.npos || file.path.starts_with("sweep/"))
      result.files.push_back(file);
  }
  for (const auto& [path, text] : result.texts) result.files.push_back({path, text});
  return result;
}

/// Returns "pointer: message" for each error.
inline std::vector<std::string> said(const runner::Diagnostics& errors) {
  std::vector<std::string> lines;
  for (const runner::Diagnostic& error : errors)
    lines.push_back(error.pointer + ": " + error.message);
  return lines;
}

inline std::vector<std::string> said(const runner::Result<runner::SchemaSet>& result) {
  return result ? std::vector<std::string>() : said(result.errors());
}

/// The recipe's schema with two stages and a sub-mapping that has its own kinds.
inline runner::SchemaSet small_schemas() {
  const SchemaTexts texts = schema_texts({
      {"data/folder.schema.json", R"({
        "$id": "data/folder.schema.json", "title": "data.folder", "description": "Reads a folder.",
        "x-version": 1, "x-outputs": {"train": "dataset"},
        "type": "object", "additionalProperties": false, "required": ["root"],
        "properties": {
          "kind": {"const": "data.folder"},
          "root": {"$ref": "common.schema.json#/definitions/path", "description": "The folder to read."},
          "size": {"type": "integer", "minimum": 1, "maximum": 4096, "default": 96, "x-unit": "pixels", "description": "Side."}
        }})"},
      {"train/fit.schema.json", R"({
        "$id": "train/fit.schema.json", "title": "train.fit", "description": "Fits a model.",
        "x-version": 3, "x-cacheable": true,
        "x-inputs": {"data": "dataset", "others": {"type": "dataset", "optional": true, "many": true}},
        "x-outputs": {"checkpoint": "checkpoint"},
        "type": "object", "additionalProperties": false,
        "properties": {
          "kind": {"const": "train.fit"},
          "epochs": {"type": "integer", "minimum": 1, "default": 10, "x-unit": "epochs", "description": "Passes."},
          "micro_batch": {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}], "default": "auto", "description": "Part."},
          "optimizer": {"type": "object", "x-kinds": "train/optimizer", "x-default-kind": "adam", "default": {}, "description": "How."},
          "precision": {"description": "Number format."}
        }})"},
      {"train/optimizer/adam.schema.json", R"({
        "$id": "train/optimizer/adam.schema.json", "title": "train/optimizer/adam", "description": "Adam.",
        "type": "object", "additionalProperties": false,
        "properties": {
          "kind": {"const": "adam"},
          "learning_rate": {"type": "number", "exclusiveMinimum": 0, "default": 0.001, "description": "Step."},
          "betas": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2, "default": [0.9, 0.999], "description": "Means."}
        }})"},
      {"train/optimizer/sgd.schema.json", R"({
        "$id": "train/optimizer/sgd.schema.json", "title": "train/optimizer/sgd", "description": "SGD.",
        "type": "object", "additionalProperties": false,
        "properties": {
          "kind": {"const": "sgd"},
          "learning_rate": {"type": "number", "exclusiveMinimum": 0, "default": 0.01, "description": "Step."},
          "nesterov": {"type": "boolean", "default": false, "description": "Ahead."}
        }})"},
  });
  auto loaded = runner::SchemaSet::load(texts.files);
  for (const std::string& line : said(loaded)) ADD_FAILURE() << line;
  return std::move(*loaded);
}

/// Gives `value` locations as if every key and item were on its own line, keys in column 1 and
/// values in column 9.
inline void place_lines(runner::Value& value, const runner::SourceText& source, int& line) {
  value.where = {&source, line, 9};
  if (auto* list = value.list()) {
    for (runner::Value& item : *list) place_lines(item, source, ++line);
  }
  if (auto* map = value.map()) {
    for (runner::Entry& entry : *map) {
      entry.key_where = {&source, ++line, 1};
      place_lines(entry.value, source, line);
    }
  }
}

/// A recipe written as JSON, with such locations in `source`.
inline runner::Value written(const std::string& json, const runner::SourceText& source) {
  runner::Value value = runner::from_json(nlohmann::ordered_json::parse(json));
  int line = 1;
  place_lines(value, source, line);
  return value;
}

/// A recipe written as JSON, without locations.
inline runner::Value written(const std::string& json) {
  return runner::from_json(nlohmann::ordered_json::parse(json));
}

/// Returns "line:column pointer: message (help)" for each error, in order.
inline std::vector<std::string> told(const runner::Diagnostics& errors) {
  std::vector<std::string> lines;
  for (const runner::Diagnostic& error : errors) {
    std::string line = error.where.line ? std::to_string(error.where.line) + ":" +
                                              std::to_string(error.where.column) + " "
                                        : "";
    line += runner::name(error.code) + " " + error.pointer + ": " + error.message;
    lines.push_back(error.help.empty() ? line : line + " (" + error.help + ")");
  }
  return lines;
}
