#include "stages/adapters/model_linear_probe.h"

#include <optional>
#include <stdexcept>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/class_captions.h"
#include "stages/model/backbone.h"
#include "stages/model/caption_tokens.h"
#include "stages/model/text_head.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_probe(runner::ConfigReader& reader) {
  HeadOptions head = read_head(reader);
  FineTunedConfig config;
  config.head_start = head.start;
  config.templates = std::move(head.templates);
  return fine_tuned_stage(reader, std::move(config));
}

}  // namespace

extern const runner::StageKind kModelLinearProbe = {"model.linear_probe", create_probe};

namespace {

using runner::ErrorCode;
using runner::StageError;

class FineTunedStage : public runner::Stage {
 public:
  explicit FineTunedStage(FineTunedConfig config) : config_(std::move(config)) {}

  std::string fingerprint() const override {
    if (config_.backbone.weights && !sha256_) sha256_ = weights_sha256(*config_.backbone.weights);
    std::string all = sha256_.value_or("");
    if (config_.adapter) all += runner::digest_below(*config_.adapter);
    if (config_.head_start != HeadStart::kZeroShot) return all;
    const auto merges = merges_next_to(*config_.backbone.weights);
    return all + (merges ? runner::digest_below(*merges) : "");
  }
  /// True if the weights are random and therefore depend on the seed.
  bool uses_seed() const override { return !config_.backbone.weights; }

  /// A plan reads only the shapes of the weights and the config next to them.
  std::optional<runner::Outputs> plan(const runner::Inputs&,
                                      runner::PlanContext& context) override {
    FineTunedConfig config = config_;
    BackboneConfig& backbone = config.backbone;
    std::shared_ptr<const SavedWeights> shapes;
    if (backbone.weights)
      shapes = std::make_shared<const SavedWeights>(shapes_of_weights(backbone));
    backbone =
        resolved(backbone, shapes ? config_of_weights(shapes->config, backbone) : std::nullopt);
    FineTuned(config, shapes, context.node().seed).check_base();
    read_texts(config, shapes);
    return runner::Outputs{
        {"model", std::make_shared<FineTuned>(std::move(config), nullptr, context.node().seed)}};
  }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    FineTunedConfig config = config_;
    BackboneConfig& backbone = config.backbone;
    std::shared_ptr<SavedWeights> saved;
    if (backbone.weights) {
      saved = std::make_shared<SavedWeights>(shapes_of_weights(backbone));
      if (!sha256_) sha256_ = sha256_of_weights(backbone);
      saved->sha256 = *sha256_;
    }
    backbone =
        resolved(backbone, saved ? config_of_weights(saved->config, backbone) : std::nullopt);
    if (backbone.projection_dim && !is_projected(backbone.feature)) {
      context.say("backbone.projection_dim has no effect with 'features: pooled'");
    }
    read_texts(config, saved);
    return {{"model", std::make_shared<FineTuned>(std::move(config), std::move(saved),
                                                  context.node().seed)}};
  }

 private:
  static void read_texts(FineTunedConfig& config,
                         const std::shared_ptr<const SavedWeights>& saved) {
    if (config.head_start == HeadStart::kZeroShot)
      config.text_head = std::make_shared<const TextHead>(config.pointer, config.backbone,
                                                          config.templates, saved);
  }

  const FineTunedConfig config_;
  mutable std::optional<std::string>
      sha256_;  // SHA-256 of the weights, kept so that a large file is not read repeatedly
};

/// Reports why a backbone cannot have a head that is initialized from texts.
void check_text_start(runner::ConfigReader& reader, const BackboneConfig& backbone) {
  const auto refuse = [&](const char* option, const std::string& why, const std::string& help) {
    reader.fail(option, ErrorCode::kOptionConflict, why, help);
  };
  if (backbone.family != BackboneFamily::kClip || !backbone.weights)
    refuse("head_start",
           std::string("head_start: zero_shot needs a text tower, but the backbone ") +
               (backbone.weights ? "is not a CLIP model" : "has random weights"),
           "use a backbone of kind clip_vision with the weights of a complete CLIP model, or set "
           "head_start: uniform");
  else if (backbone.feature != Feature::kProjectedNormalized)
    refuse("backbone",
           "head_start: zero_shot classifies CLIP's normalized image embedding, but features "
           "selects another",
           "set backbone.features: projected_normalized");
}

}  // namespace

HeadOptions read_head(runner::ConfigReader& reader) {
  HeadOptions options;
  options.start = runner::choice<HeadStart>(reader, "head_start",
                                            {{"uniform", HeadStart::kUniform},
                                             {"zero", HeadStart::kZero},
                                             {"zero_shot", HeadStart::kZeroShot}});
  options.templates = read_templates(reader);
  return options;
}

runner::Result<std::unique_ptr<runner::Stage>> fine_tuned_stage(runner::ConfigReader& reader,
                                                                FineTunedConfig config) {
  config.pointer = reader.pointer();
  config.backbone = read_backbone(reader);
  if (config.trains_all && config.backbone.dtype != at::kFloat)
    reader.fail("backbone", ErrorCode::kOptionConflict,
                "dtype is the format of frozen weights, but model.full trains all weights",
                "set dtype: fp32; memory.precision sets the format of the computation");
  runner::read_or_auto(reader, "num_classes", config.num_classes);
  if (config.head_start == HeadStart::kZeroShot) check_text_start(reader, config.backbone);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<FineTunedStage>(std::move(config)));
}

}  // namespace stages
