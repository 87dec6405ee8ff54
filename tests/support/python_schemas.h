#pragma once

#include <string>
#include <utility>

#include "runner/parent/schema/schema.h"
#include "runner/shared/graph/graph.h"
#include "tests/support/schema_texts.h"

/// The recipe's schema with a kind that runs Python code, model.code, and one that does not,
/// model.plain, which has options of the same names: entry and tokenizer.entry.
inline runner::SchemaSet python_schemas() {
  const auto kind = [](const std::string& name, const std::string& more) {
    return R"({"$id": "model/)" + name + R"(.schema.json", "title": "model.)" + name +
           R"(", "description": "Makes a network.", )" + more +
           R"("x-outputs": {"model": "model"}, "type": "object", "additionalProperties": false,
           "properties": {"kind": {"const": "model.)" +
           name + R"("}, "entry": {"type": "string", "default": "timm:create_model", )" +
           R"("description": "Code."}, "tokenizer": {"default": null, "description": "Reads texts.",
           "anyOf": [{"const": null}, {"type": "object", "additionalProperties": false, "properties": {
             "entry": {"type": "string", "default": "timm:make", "description": "Code."}}}]}}})";
  };
  const SchemaTexts texts = schema_texts(
      {{"model/code.schema.json", kind("code", R"("x-python": ["entry", "tokenizer/entry"], )")},
       {"model/plain.schema.json", kind("plain", "")}});
  auto loaded = runner::SchemaSet::load(texts.files);
  for (const std::string& line : said(loaded)) ADD_FAILURE() << line;
  return std::move(*loaded);
}

/// A node `id` of the stage `id` with the entry `entry`, written at line 3.
inline runner::Node node_with_entry(const std::string& id, const std::string& kind,
                                    const std::string& entry,
                                    const runner::SourceText* source = nullptr) {
  const runner::Location where{source, 3, 10};
  runner::Value options{runner::Value::Map{{"entry", where, {entry, where}}}, where};
  return {.id = id,
          .stage = id,
          .kind = kind,
          .options = std::move(options),
          .pointer = "/" + id,
          .inputs = {}};
}

/// Like node_with_entry(), with the code of a tokenizer at line 4.
inline runner::Node node_with_tokenizer(const std::string& id, const std::string& entry,
                                        const std::string& tokenizer,
                                        const runner::SourceText* source = nullptr) {
  runner::Node node = node_with_entry(id, "model.code", entry, source);
  const runner::Location where{source, 4, 10};
  runner::Value nested{runner::Value::Map{{"entry", where, {tokenizer, where}}}, where};
  node.options.map()->push_back({"tokenizer", where, std::move(nested)});
  return node;
}
