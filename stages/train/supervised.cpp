#include <algorithm>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/artifact/ordinal_head.h"
#include "stages/tensor/device_constant.h"
#include "stages/tensor/shape_text.h"
#include "stages/train/balanced_samples.h"
#include "stages/train/calibration.h"
#include "stages/train/class_weights.h"
#include "stages/train/classification_loss.h"
#include "stages/train/mixing.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct ClassificationOptions {
  ClassificationLoss loss;
  ClassWeights class_weights;
  bool balances = false;  ///< draw class-balanced samples
  std::string monitor;
  MixingOptions mixing;
  DecisionFit fit;
};

/// Computes the loss of a classifier's logits.
class ClassificationStep final : public TrainingStep {
 public:
  ClassificationStep(const Model& model, std::int64_t classes, const ClassificationOptions& options,
                     at::Tensor class_weights)
      : model_(model),
        classes_(classes),
        options_(options),
        class_weights_(std::move(class_weights)),
        importance_weights_(options.loss.ordinal ? importance_weights_of(*options.loss.ordinal)
                                                 : at::Tensor()) {}

  std::vector<LossTerm> terms() const override {
    return {{options_.loss.name(), Coupling::kPerSample}};
  }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  std::string why_mixed() const override { return model_.why_mixed(); }
  bool mixes_over_ranks() const override { return model_.mixes_over_ranks(); }
  std::optional<std::string> structure() const override {
    if (options_.mixing.mixes()) return std::nullopt;  // the boxes to mix are drawn from the seed
    return "supervised " + structure_of(options_.loss, class_weights_.defined());
  }

  std::string why_not_replayed() const override { return {}; }
  bool weighs_samples() const override {
    return class_weights_.defined() || options_.loss.head() == OrdinalHead::kCorn;
  }

  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    const at::Tensor labels = batch["label"].contiguous();
    const auto* label = labels.const_data_ptr<std::int64_t>();
    for (std::int64_t unit = 0; unit < batch.units(); ++unit) {
      if (label[unit] >= 0 && label[unit] < classes_) continue;
      return BadUnit{unit, ErrorCode::kLabelOutOfRange,
                     "label " + std::to_string(label[unit]) + " is outside the model's " +
                         std::to_string(classes_) + " classes"};
    }
    return {};
  }

  std::vector<std::string> notes() const override {
    const bool is_twice =
        options_.balances && std::holds_alternative<BalancedWeights>(options_.class_weights);
    return is_twice ? std::vector{balanced_twice("class_weights: balanced")}
                    : std::vector<std::string>();
  }
  void describe(DatasetDescription& data) const override { data.ordinal = options_.loss.head(); }

  Batch prepare(const Batch& batch, const StepKey& key) const override {
    return options_.mixing.mixes() ? mix_samples(batch, options_.mixing, key) : batch;
  }
  bool reads_whole_batch() const override { return options_.mixing.mixes(); }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor& logits = encoded.at("logits");
    check_outputs(logits);
    if (is_mixed(part)) {
      return {{options_.loss.name(),
               mixed_classification_loss_sum(logits, part["label"], part["partner_label"],
                                             part["share"], options_.loss)}};
    }
    const DeviceConstant& weights = options_.loss.ordinal ? importance_weights_ : class_weights_;
    return {{options_.loss.name(), classification_loss_sum(logits, part["label"], options_.loss,
                                                           weights.on(part.device()))}};
  }
  double weight(const Batch& batch) const override {
    const at::Tensor labels = batch["label"];
    if (options_.loss.ordinal && !labels.is_meta())
      return ordinal_weight(labels.cpu(), classes_, options_.loss.head());
    if (!class_weights_.defined() || labels.is_meta()) return TrainingStep::weight(batch);
    constexpr double kLeast = 1e-30;  // avoids 0 / 0 if all samples of a batch have weight 0
    const at::Tensor weights = class_weights_.on_host().index_select(0, labels.cpu());
    return std::max(kLeast, weights.to(torch::kDouble).sum().item<double>());
  }
  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    // For a mixture, the label with the larger share counts.
    const at::Tensor label =
        is_mixed(part) ? torch::where(part["share"] < 0.5, part["partner_label"], part["label"])
                       : part["label"];
    return {{"accuracy", correct_count(encoded.at("logits"), label, options_.loss.head())}};
  }
  /// Returns the logits and the label of each sample, as float32 of shape (n, classes + 1).
  at::Tensor kept_in_validation(const NamedTensors& encoded, const Batch& part) const override {
    if (!options_.fit.fits_anything()) return {};
    return calibration_rows(class_logits(encoded.at("logits").detach(), options_.loss.head()),
                            part["label"]);
  }
  std::int64_t bytes_kept_in_validation() const override {
    return calibration_bytes(options_.fit, classes_);
  }
  std::vector<std::pair<std::string, double>> saved_of_all(const at::Tensor& kept) const override {
    return named_numbers(fitted_decision(kept, options_.fit));
  }

 private:
  /// Throws if a network not built by Retort has other outputs than one number per class.
  void check_outputs(const at::Tensor& outputs) const {
    const std::int64_t width = options_.loss.ordinal ? classes_ - 1 : classes_;
    if (outputs.dim() == 2 && outputs.size(1) == width) return;
    if (options_.loss.ordinal) {
      throw StageError(ErrorCode::kOptionConflict,
                       "the network must return one number fewer than there are classes, " +
                           std::to_string(width) + ", for each sample, since loss.kind is " +
                           options_.loss.name())
          .with_help("make its last layer that wide; model.class_argument passes the number");
    }
    throw StageError(ErrorCode::kOptionConflict,
                     "the network returned logits of shape " + shape_text(outputs) +
                         ", but train.supervised needs one number for each sample and class: (" +
                         std::to_string(outputs.dim() > 0 ? outputs.size(0) : 1) + ", " +
                         std::to_string(width) + ")")
        .with_help(
            "return class scores, for example from a layer on the mean of a sample's tokens, or "
            "write the loss in Python with train.kind: train.python");
  }
  static bool is_mixed(const Batch& part) { return part.tensors().contains("share"); }

  const Model& model_;
  const std::int64_t classes_;
  const ClassificationOptions options_;
  const DeviceConstant class_weights_;       // undefined: all weights are 1
  const DeviceConstant importance_weights_;  // of the outputs; undefined: all weights are 1
};

/// Throws if the classes have no known order, or if the model does not support the loss's head.
void check_ordinal(const OrdinalLoss& loss, const Model& model, const DatasetDescription& train) {
  check_order(loss, train);
  if (model.has_ordinal_head(loss.head)) return;
  const bool is_coral = loss.head == OrdinalHead::kCoral;
  throw StageError(
      ErrorCode::kOptionConflict,
      is_coral
          ? "CORAL's outputs share their weights, which this model's last layer does not support"
          : "this model has no head for ordered classes")
      .at("/loss/kind")
      .with_help(is_coral && model.has_ordinal_head(OrdinalHead::kCorn)
                     ? "set loss.kind: corn, whose outputs have their own weights"
                     : "use another model, such as model.full or model.linear_probe");
}

runner::Result<std::unique_ptr<runner::Stage>> create_supervised(runner::ConfigReader& reader) {
  ClassificationOptions options;
  options.loss = read_classification_loss(reader);
  options.class_weights = read_class_weights(reader);
  options.mixing = read_mixing(reader);
  if (options.mixing.mixes() && !std::holds_alternative<std::monostate>(options.class_weights)) {
    reader.fail(
        "class_weights", ErrorCode::kOptionConflict,
        "class_weights apply to samples of one class, but mixup and cutmix mix samples of two",
        "set sampling: balanced instead of class_weights, or mixup: 0 and cutmix: 0");
  }
  options.balances =
      runner::choice<bool>(reader, "sampling", {{"as_is", false}, {"balanced", true}});
  reader.read("monitor", options.monitor);
  options.fit = read_calibration(reader);
  const auto make_step = [options](const Model& model, const TrainingData& data,
                                   const MemoryPolicy&) {
    check_one_class_each(*data.train);
    check_same_classes(*data.train, data.validation.get());
    check_mixing(options.mixing, *data.train);
    const auto classes = static_cast<std::int64_t>(data.train->describe().classes.size());
    if (options.loss.focal && classes < 2) {
      throw StageError(ErrorCode::kOptionConflict,
                       "a focal loss needs two or more classes, but the training data has only one")
          .at("/loss")
          .with_help("add a second class to the data, or set loss: {kind: cross_entropy}");
    }
    if (options.loss.ordinal) check_ordinal(*options.loss.ordinal, model, data.train->describe());
    check_calibration(options.fit, classes, data.validation.get());
    const at::Tensor class_weights = class_weights_of(options.class_weights, *data.train);
    if (options.monitor == "loss") check_weighted_validation(class_weights, data.validation.get());
    return std::make_unique<ClassificationStep>(model, classes, options, class_weights);
  };
  TrainingKind kind{.make_step = make_step, .scores = {"accuracy"}};
  if (options.balances) kind.draw = draw_balanced;
  return make_training_stage(reader, std::move(kind));
}

}  // namespace

extern const runner::StageKind kTrainSupervised = {.name = "train.supervised",
                                                   .create = create_supervised};

}  // namespace stages
