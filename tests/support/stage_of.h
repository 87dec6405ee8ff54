#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "tests/support/stage_options.h"

/// A stage with the defaults of `kind` and with `options`, a mapping or its text. In the recipe, it
/// is under the family of its kind: a "model.clip" at /model.
inline runner::Result<std::unique_ptr<runner::Stage>> created(
    const runner::StageKind& kind,
    const nlohmann::ordered_json& options = nlohmann::ordered_json::object()) {
  std::string schema(kind.name);
  schema[schema.find('.')] = '/';
  const runner::Value value =
      stage_options(schema, options.is_string() ? options.get<std::string>() : options.dump());
  runner::ConfigReader reader(value, "/" + schema.substr(0, schema.find('/')));
  return kind.create(reader);
}

/// Like created(), but for valid options: throws the errors of invalid ones.
inline std::unique_ptr<runner::Stage> stage_of(
    const runner::StageKind& kind,
    const nlohmann::ordered_json& options = nlohmann::ordered_json::object()) {
  auto stage = created(kind, options);
  if (stage) return *std::move(stage);
  std::vector<runner::StageError> errors;
  for (const runner::Diagnostic& error : stage.errors())
    errors.push_back(
        runner::StageError(error.code, error.message).at(error.pointer).with_help(error.help));
  throw runner::StageErrors(std::move(errors));
}
