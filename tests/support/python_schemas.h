#pragma once

#include <string>
#include <utility>

#include "runner/parent/schema/schema.h"
#include "runner/shared/graph/graph.h"
#include "tests/support/schema_texts.h"

/// The recipe's schema with a kind that runs Python code, model.code, and one that does not,
/// model.plain, which has an option of the same name.
inline runner::SchemaSet python_schemas() {
  const auto kind = [](const std::string& name, const std::string& more) {
    return R"({"$id": "model/)" + name + R"(.schema.json", "title": "model.)" + name +
           R"(", "description": "Makes a network.", )" + more +
           R"("x-outputs": {"model": "model"}, "type": "object", "additionalProperties": false,
           "properties": {"kind": {"const": "model.)" +
           name + R"("}, "entry": {"type": "string", "default": "timm:create_model", )" +
           R"("description": "Code."}}})";
  };
  const SchemaTexts texts =
      schema_texts({{"model/code.schema.json", kind("code", R"("x-python": true, )")},
                    {"model/plain.schema.json", kind("plain", "")}});
  auto loaded = runner::SchemaSet::load(texts.files);
  for (const std::string& line : said(loaded)) ADD_FAILURE() << line;
  return std::move(*loaded);
}

/// A node `id` of the stage `id` whose entry is `entry`, written at line 3.
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
