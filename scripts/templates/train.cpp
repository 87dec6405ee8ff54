#include <string>

#include <torch/nn/module.h>

#include "runner/shared/stage/config_reader.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/train/classification_loss.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// Computes the loss of a batch.
class NovelStep final : public TrainingStep {
 public:
  NovelStep(const Model& model, std::int64_t classes, double temperature)
      : model_(model), classes_(classes), temperature_(temperature) {}

  std::vector<LossTerm> terms() const override { return {{"cross_entropy", Coupling::kPerSample}}; }
  bool mixes_samples() const override { return model_.mixes_samples(); }

  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    const at::Tensor bad = (batch["label"] < 0).logical_or_(batch["label"] >= classes_).nonzero();
    if (bad.size(0) == 0) return {};
    return BadUnit{bad[0][0].item<std::int64_t>(), ErrorCode::kLabelOutOfRange,
                   "a label is outside the model's " + std::to_string(classes_) + " classes"};
  }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor logits = encoded.at("logits") / temperature_;
    return {{"cross_entropy", cross_entropy_sum(logits, part["label"], /*label_smoothing=*/0)}};
  }
  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    return {{"accuracy", correct_count(encoded.at("logits"), part["label"])}};
  }

 private:
  const Model& model_;
  const std::int64_t classes_;
  const double temperature_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_novel(runner::ConfigReader& reader) {
  double temperature = 1;
  reader.read("temperature", temperature);
  const auto make_step = [temperature](const Model& model, const TrainingData& data,
                                       const MemoryPolicy&) {
    const auto classes = static_cast<std::int64_t>(data.train->describe().classes.size());
    if (classes == 0) {
      throw StageError(ErrorCode::kLabelOutOfRange, "the training data has no classes")
          .with_help("connect labeled data to 'train'");
    }
    return std::make_unique<NovelStep>(model, classes, temperature);
  };
  return make_training_stage(reader, {.make_step = make_step, .scores = {"accuracy"}});
}

}  // namespace

extern const runner::StageKind kTrainNovel = {.name = "train.novel", .create = create_novel};

}  // namespace stages
