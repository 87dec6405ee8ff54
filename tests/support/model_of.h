#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {

/// What a kind of model puts out, by its defaults and `options`, run with a seed of its own.
inline std::shared_ptr<const Model> model_of(const runner::StageKind& kind,
                                             const nlohmann::ordered_json& options) {
  std::string schema(kind.name);
  std::ranges::replace(schema, '.', '/');
  const runner::Value value = stage_options(schema, options.dump());
  runner::ConfigReader reader(value, "/model");
  const auto stage = kind.create(reader);
  if (!stage) throw std::logic_error(stage.errors()[0].message);
  RecordingContext context;
  context.facts.seed = 7;
  return std::static_pointer_cast<const Model>(
      (*stage)->run(runner::Inputs({}), context).at("model"));
}

}  // namespace stages
