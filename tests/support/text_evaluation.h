#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/text_classes.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/captioned_images.h"
#include "tests/support/model_of.h"
#include "tests/support/on_test_device.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"

namespace stages {

/// An evaluation of a small CLIP with random weights on CaptionedImages.
class TextEvaluation : public testing::Test {
 protected:
  TextEvaluation() {
    const DatasetDescription data = data_->describe();
    const auto model = model_of(kModelClip, nlohmann::ordered_json::parse(kTinyClip));
    checkpoint_->model = model;
    checkpoint_->model_stage = "model";
    checkpoint_->network = on_test_device(model->build(data, 5));
    checkpoint_->network->eval();
    checkpoint_->inputs = data.tensors;
    checkpoint_->classes = data.classes;
  }
  std::unique_ptr<runner::Stage> stage(const runner::StageKind& kind,
                                       const nlohmann::ordered_json& options) const {
    return stage_of(kind, options);
  }
  runner::Inputs inputs() const {
    return runner::Inputs(
        {{"test", {data_}}, {"checkpoint", {checkpoint_}}, {"memory", {policy_}}});
  }
  nlohmann::json run(const runner::StageKind& kind, const nlohmann::ordered_json& options) {
    outputs_ = stage(kind, options)->run(inputs(), context_);
    std::ifstream file(context_.node().folder / "metrics.json");
    return nlohmann::json::parse(file);
  }
  runner::Diagnostics refusal(const runner::StageKind& kind) {
    PlanningContext planning;
    return refusals_of(
        [&] { stage(kind, nlohmann::ordered_json::object())->plan(inputs(), planning); });
  }
  /// The embeddings of all images and of some texts.
  at::Tensor images() const {
    const torch::NoGradGuard no_graph;
    std::vector<at::Tensor> pixels;
    for (std::int64_t i = 0; i < data_->describe().size; ++i)
      pixels.push_back(data_->sample(0, i)->at("image"));
    return checkpoint_->model
        ->forward(*checkpoint_->network, {{"image", torch::stack(pixels).to(here().device())}})
        .at("image_embeddings")
        .cpu();
  }
  at::Tensor texts(const std::vector<std::string>& texts) const {
    const torch::NoGradGuard no_graph;
    return TextRows(*checkpoint_, texts)
        .embeddings(*checkpoint_->network, here().device(), 100)
        .cpu();
  }

  std::shared_ptr<Dataset> data_ = std::make_shared<CaptionedImages>(14);
  const std::shared_ptr<MemoryPolicy> policy_ = std::make_shared<MemoryPolicy>();
  const std::shared_ptr<Checkpoint> checkpoint_ = std::make_shared<Checkpoint>();
  RecordingContext context_;
  runner::Outputs outputs_;
};

}  // namespace stages
