#include <optional>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/few_shot/episode_model.h"

namespace stages {
namespace {

using runner::StageError;

class EpisodeModelStage : public runner::Stage {
 public:
  explicit EpisodeModelStage(EpisodeModelConfig config) : config_(std::move(config)) {}

  std::string fingerprint() const override {
    if (!config_.backbone.weights) return "";
    if (!sha256_) sha256_ = weights_sha256(*config_.backbone.weights);
    return *sha256_;
  }
  /// The random weights of a frozen backbone follow from it.
  bool uses_seed() const override { return !config_.backbone.weights && !config_.backbone.is_trainable; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    auto model = std::make_shared<EpisodeModel>(config_, shapes_of_weights(), context.node().seed);
    model->check_weights();
    return {{"model", std::move(model)}};
  }

 private:
  /// null: there are none.
  std::shared_ptr<const SavedWeights> shapes_of_weights() const {
    const EpisodeBackbone& backbone = config_.backbone;
    if (!backbone.weights) return nullptr;
    try {
      auto saved = std::make_shared<SavedWeights>(
          read_saved_weights(*backbone.weights, WeightContents::kShapes, backbone.weights_entry));
      saved->sha256 = fingerprint();
      return saved;
    } catch (const StageError& error) {
      throw StageError(error.code, error.what()).at("/weights").in_stage(backbone.pointer).with_help(error.help);
    }
  }

  const EpisodeModelConfig config_;
  mutable std::optional<std::string> sha256_;  // of the weights, which are read for it once
};

}  // namespace

runner::Result<std::unique_ptr<runner::Stage>> episode_model_stage(runner::ConfigReader& reader,
                                                                   EpisodeModelConfig config) {
  config.pointer = reader.pointer();
  std::visit([&](auto& head) { head.pointer = reader.pointer(); }, config.head);
  config.backbone = read_episode_backbone(reader);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<EpisodeModelStage>(std::move(config)));
}

}  // namespace stages
