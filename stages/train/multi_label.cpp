#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/artifact/label_ranking.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/label_thresholds.h"
#include "stages/artifact/model.h"
#include "stages/tensor/device_constant.h"
#include "stages/train/class_weights.h"
#include "stages/train/multi_label_loss.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kNamedLabels = 10;

/// Computes a loss with one sigmoid per label.
class MultiLabelStep final : public TrainingStep {
 public:
  MultiLabelStep(const Model& model, std::int64_t labels, MultiLabelLoss loss,
                 at::Tensor positive_weights, std::vector<std::string> without_sample)
      : model_(model),
        labels_(labels),
        loss_(std::move(loss)),
        positive_weights_(std::move(positive_weights)),
        without_sample_(std::move(without_sample)) {}

  std::vector<LossTerm> terms() const override { return {{name_of(loss_), Coupling::kPerSample}}; }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  std::string why_mixed() const override { return model_.why_mixed(); }
  bool mixes_over_ranks() const override { return model_.mixes_over_ranks(); }
  void constrain(torch::nn::Module& network) const override { model_.constrain(network); }
  std::optional<std::string> structure() const override {
    return "multi_label " + structure_of(loss_);
  }

  std::string why_not_replayed() const override { return {}; }

  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    const at::Tensor labels = batch[kLabelSet];
    const at::Tensor is_bad = labels.ne(0).logical_and(labels.ne(1)).any(1);
    if (!is_bad.any().item<bool>()) return {};
    const auto unit = is_bad.to(at::kByte).argmax().item<std::int64_t>();
    return BadUnit{unit, ErrorCode::kLabelOutOfRange,
                   "a number in 'labels' is neither 1, for a label that the sample has, nor 0"};
  }

  std::vector<std::string> notes() const override {
    if (without_sample_.empty()) return {};
    return {"no training sample has " +
            std::string(without_sample_.size() == 1 ? "the label " : "the labels ") +
            runner::listed(without_sample_, kNamedLabels, "'") +
            ", which therefore cannot be learned"};
  }

  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    if (encoded.at("logits").dim() != 2 || encoded.at("logits").size(1) != labels_) {
      throw StageError(ErrorCode::kOptionConflict,
                       "the network must return " + std::to_string(labels_) +
                           " logits for each sample, one for each label")
          .with_help("change the model, or the labels of the data");
    }
    return {{name_of(loss_), multi_label_loss_sum(encoded.at("logits"), part[kLabelSet], loss_,
                                                  positive_weights_.on(part.device()))}};
  }
  /// Returns each sample's logits and labels, as float32 of shape (n, 2 labels).
  at::Tensor kept_in_validation(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor logits = encoded.at("logits").detach().to(at::kFloat);
    return torch::cat({logits, part[kLabelSet].to(logits.device(), at::kFloat)}, 1);
  }
  std::int64_t bytes_kept_in_validation() const override {
    return 2 * labels_ * static_cast<std::int64_t>(sizeof(float));
  }
  std::vector<std::pair<std::string, double>> scores_of_all(const at::Tensor& kept) const override {
    // In a smoke run, the few samples may not have any labels.
    constexpr double kNothingKnown = 0;
    return {
        {std::string(kMeanAveragePrecision), mean_average_precision(kept).value_or(kNothingKnown)}};
  }
  std::vector<std::pair<std::string, double>> saved_of_all(const at::Tensor& kept) const override {
    return named_thresholds(chosen_thresholds(kept));
  }

 private:
  const Model& model_;
  const std::int64_t labels_;
  const MultiLabelLoss loss_;
  const DeviceConstant positive_weights_;  // undefined: all are 1
  const std::vector<std::string> without_sample_;
};

void check_label_sets(const Dataset& data, const std::string& which) {
  if (has_label_sets(data.describe())) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "train.multi_label needs samples with label sets, but the " + which +
                       " data has " +
                       (data.describe().classes.empty() ? "no classes" : "one class per sample"))
      .with_help(
          "list the images and their labels in a CSV file (kind: data.image_table, labels: …), or "
          "return 'labels' with 1 or 0 for each class from your own dataset");
}

/// Returns the labels that no sample has, if that is known.
std::vector<std::string> labels_without_sample(const Dataset& data) {
  const std::vector<std::int64_t> counts = label_counts(data);
  const std::vector<std::string> labels = data.describe().classes;
  std::vector<std::string> without;
  for (std::size_t label = 0; label < counts.size(); ++label)
    if (counts[label] == 0) without.push_back(labels[label]);
  return without;
}

runner::Result<std::unique_ptr<runner::Stage>> create_multi_label(runner::ConfigReader& reader) {
  const MultiLabelLoss loss = read_multi_label_loss(reader);
  std::string monitor;
  reader.read("monitor", monitor);
  const auto make_step = [loss, monitor](const Model& model, const TrainingData& data,
                                         const MemoryPolicy&) {
    check_label_sets(*data.train, "training");
    if (data.validation) check_label_sets(*data.validation, "validation");
    check_same_classes(*data.train, data.validation.get());
    if (data.validation && monitor == kMeanAveragePrecision &&
        labels_without_sample(*data.validation).size() ==
            data.validation->describe().classes.size()) {
      throw StageError(ErrorCode::kTooFewSamples,
                       "no validation sample has a label, so the mean average precision is unknown")
          .at("/monitor")
          .with_help("set monitor: loss, or add samples with labels to the validation part");
    }
    at::Tensor weights;
    if (const auto* entropy = std::get_if<LabelEntropy>(&loss))
      weights = positive_weights(entropy->pos_weight, *data.train);
    return std::make_unique<MultiLabelStep>(model, std::ssize(data.train->describe().classes), loss,
                                            std::move(weights), labels_without_sample(*data.train));
  };
  return make_training_stage(reader, {.make_step = make_step, .scores = {kMeanAveragePrecision}});
}

}  // namespace

extern const runner::StageKind kTrainMultiLabel = {.name = "train.multi_label",
                                                   .create = create_multi_label};

}  // namespace stages
