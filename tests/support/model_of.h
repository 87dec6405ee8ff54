#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_of.h"

namespace stages {

/// The output of a kind of model with its defaults and `options`, run with its own seed.
inline std::shared_ptr<const Model> model_of(const runner::StageKind& kind,
                                             const nlohmann::ordered_json& options) {
  const auto stage = stage_of(kind, options);
  RecordingContext context;
  context.facts.seed = 7;
  return std::static_pointer_cast<const Model>(stage->run(runner::Inputs({}), context).at("model"));
}

}  // namespace stages
