#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/captioned_images.h"
#include "tests/support/model_of.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_of.h"

namespace stages {

inline runner::Result<std::unique_ptr<runner::Stage>> contrastive_stage(
    const nlohmann::ordered_json& options) {
  return created(kTrainContrastive, options);
}

/// A contrastive training run with some options, on CaptionedImages.
struct ContrastiveRun {
  std::shared_ptr<CaptionedImages> train = std::make_shared<CaptionedImages>(23),
                                   validation = std::make_shared<CaptionedImages>(9);
  std::shared_ptr<const Model> model =
      model_of(kModelClip, nlohmann::ordered_json::parse(kTinyClip));
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  RecordingContext context;
  nlohmann::ordered_json options =
      nlohmann::ordered_json::parse(R"({"epochs": 2, "batch_size": 8, "log_every": 1,
                                 "optimizer": {"kind": "sgd", "learning_rate": 0.05}})");

  ContrastiveRun() { policy->pointer = "/memory"; }
  std::unique_ptr<runner::Stage> stage() const {
    auto made = contrastive_stage(options);
    if (!made) throw std::logic_error(made.errors()[0].message);
    return *std::move(made);
  }
  runner::Inputs inputs() const {
    return runner::Inputs({{"model", {std::const_pointer_cast<Model>(model)}},
                           {"memory", {policy}},
                           {"train", {train}},
                           {"validation", {validation}}},
                          {{"model", "model"}});
  }
  std::shared_ptr<const Checkpoint> run() {
    const runner::Outputs outputs = stage()->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint");
  }
  std::unique_ptr<PlanningContext> plan(bool certifies = false) const {
    auto planning = std::make_unique<PlanningContext>();
    planning->asked.wants_certificate = certifies;
    stage()->plan(inputs(), *planning);
    return planning;
  }
};

/// The largest difference between the weights of two checkpoints.
inline double difference(const Checkpoint& one, const Checkpoint& other) {
  double most = 0;
  const NamedTensors others = weights(*other.network);
  for (const auto& [name, tensor] : weights(*one.network))
    most = std::max(most, (tensor - others.at(name)).abs().max().item<double>());
  return most;
}

}  // namespace stages
