#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/join.h"
#include "stages/artifact/model.h"
#include "stages/artifact/targets.h"
#include "stages/tensor/device_constant.h"
#include "stages/train/mixing.h"
#include "stages/train/regression_loss.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::string_view kR2 = "r2";

struct TargetOptions {
  RegressionLoss loss;
  bool standardizes = true;
  MixingOptions mixing;
  std::string monitor;
};

/// Computes the loss of a network with one output per target.
class RegressionStep final : public TrainingStep {
 public:
  RegressionStep(const Model& model, std::int64_t targets, const TargetOptions& options,
                 TrainedTargets trained)
      : model_(model),
        targets_(targets),
        options_(options),
        trained_(std::move(trained)),
        mean_(row_of(trained_.mean)),
        deviation_(row_of(trained_.standard_deviation)) {}

  std::vector<LossTerm> terms() const override {
    return {{name_of(options_.loss), Coupling::kPerSample}};
  }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  std::string why_mixed() const override { return model_.why_mixed(); }
  bool mixes_over_ranks() const override { return model_.mixes_over_ranks(); }
  void constrain(torch::nn::Module& network) const override { model_.constrain(network); }
  void describe(DatasetDescription& data) const override { data.targets = trained_; }
  std::optional<std::string> structure() const override {
    if (options_.mixing.mixes()) return std::nullopt;  // the boxes to mix are drawn from the seed
    return "regression " + structure_of(options_.loss) +
           (trained_.are_standardized ? " standardized" : "");
  }

  std::string why_not_replayed() const override { return {}; }

  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    const at::Tensor is_bad = batch[kTarget].isfinite().all(1).logical_not();
    if (!is_bad.any().item<bool>()) return {};
    return BadUnit{is_bad.to(at::kByte).argmax().item<std::int64_t>(), ErrorCode::kBadAnnotations,
                   "a number in 'target' is not finite"};
  }

  Batch prepare(const Batch& batch, const StepKey& key) const override {
    return options_.mixing.mixes() ? mix_samples(batch, options_.mixing, key) : batch;
  }
  bool reads_whole_batch() const override { return options_.mixing.mixes(); }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor& outputs = encoded.at("logits");
    if (outputs.dim() != 2 || outputs.size(1) != targets_) {
      throw StageError(ErrorCode::kOptionConflict, "the network must return " +
                                                       std::to_string(targets_) +
                                                       (targets_ == 1 ? " number" : " numbers") +
                                                       " for each sample, one for each target")
          .with_help("change the model, or the targets of the data");
    }
    return {{name_of(options_.loss),
             regression_loss_sum(outputs, in_output_unit(part[kTarget]), options_.loss)}};
  }
  /// Returns each sample's predictions and targets in the targets' units, as float64 of shape
  /// (n, 2 targets).
  at::Tensor kept_in_validation(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor predictions = in_target_unit(encoded.at("logits").detach(), trained_);
    return torch::cat({predictions, part[kTarget].to(predictions.device(), at::kDouble)}, 1);
  }
  std::int64_t bytes_kept_in_validation() const override {
    return 2 * targets_ * static_cast<std::int64_t>(sizeof(double));
  }
  std::vector<std::pair<std::string, double>> scores_of_all(const at::Tensor& kept) const override {
    const TargetErrors errors =
        mean_errors(target_errors(kept.narrow(1, 0, targets_), kept.narrow(1, targets_, targets_)));
    std::vector<std::pair<std::string, double>> scores = {{"mae", errors.mae},
                                                          {"rmse", errors.rmse}};
    // In a smoke run, the few samples may have equal targets.
    constexpr double kNothingKnown = 0;
    if (errors.r2 || options_.monitor == kR2)
      scores.emplace_back(kR2, errors.r2.value_or(kNothingKnown));
    return scores;
  }

 private:
  /// Returns one value per target as a row: (1, targets) float64.
  static at::Tensor row_of(const std::vector<double>& numbers) {
    return torch::tensor(numbers, torch::kDouble).unsqueeze(0);
  }
  /// Does the same as stages::in_output_unit(), without a copy to the device.
  at::Tensor in_output_unit(const at::Tensor& targets) const {
    if (!trained_.are_standardized) return targets;
    return (targets - mean_.on(targets.device())) / deviation_.on(targets.device());
  }

  const Model& model_;
  const std::int64_t targets_;
  const TargetOptions options_;
  const TrainedTargets trained_;
  const DeviceConstant mean_, deviation_;
};

void check_targets(const Dataset& data, const std::string& which) {
  const DatasetDescription description = data.describe();
  if (has_targets(description)) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "train.regression needs samples with targets, but the " + which + " data has " +
                       (description.classes.empty() ? "none" : "classes or labels"))
      .with_help(
          "list the images and their numbers in a CSV file (kind: data.image_table, target: …), or "
          "return 'target' with a number for each name in 'classes' from your own dataset");
}

void check_same_targets(const TrainingData& data) {
  const std::vector<std::string> trained = data.train->describe().classes,
                                 validated = data.validation->describe().classes;
  if (trained == validated) return;
  throw StageError(ErrorCode::kOptionConflict, "the training data has the targets " +
                                                   runner::listed(trained, trained.size(), "'") +
                                                   ", and the validation data " +
                                                   runner::listed(validated, validated.size(), "'"))
      .with_help("give both the same targets in the same order");
}

/// Returns the first target for which all samples have the same value.
std::optional<std::size_t> constant_target(const TrainedTargets& targets) {
  const auto found = std::ranges::find(targets.standard_deviation, 0.0);
  if (found == targets.standard_deviation.end()) return {};
  return static_cast<std::size_t>(found - targets.standard_deviation.begin());
}

TrainedTargets trained_targets(const Dataset& train, bool standardizes) {
  const at::Tensor targets = known_targets(train);
  if (!targets.defined()) {
    if (!standardizes) return {};
    throw StageError(ErrorCode::kOptionConflict,
                     "standardize needs the targets of all training samples, but the training data "
                     "does not provide them")
        .at("/standardize")
        .with_help("set standardize: false, and let the dataset standardize its targets");
  }
  TrainedTargets trained = target_statistics(targets);
  trained.are_standardized = standardizes;
  const auto constant = constant_target(trained);
  if (!constant || !standardizes) return trained;
  throw StageError(ErrorCode::kTooFewSamples,
                   "all training samples have the same '" + train.describe().classes[*constant] +
                       "', " + runner::csv_number(trained.mean[*constant]) +
                       ": its standard deviation is 0, so it cannot be standardized")
      .at("/standardize")
      .with_help(
          "correct the target, give the training part more samples, or set standardize: false");
}

void check_defined_r2(const Dataset& validation) {
  const at::Tensor targets = known_targets(validation);
  if (!targets.defined() || targets.size(0) == 0) return;
  const auto constant = constant_target(target_statistics(targets));
  if (!constant) return;
  throw StageError(ErrorCode::kTooFewSamples, "all validation samples have the same '" +
                                                  validation.describe().classes[*constant] +
                                                  "', so r2 is undefined")
      .at("/monitor")
      .with_help("set monitor: mae, or give the validation part more samples");
}

runner::Result<std::unique_ptr<runner::Stage>> create_target_regression(
    runner::ConfigReader& reader) {
  TargetOptions options{.loss = read_regression_loss(reader), .mixing = read_mixing(reader)};
  reader.read("standardize", options.standardizes);
  const bool higher_is_better = runner::choice<bool>(
      reader, "monitor", {{"loss", false}, {"mae", false}, {"rmse", false}, {kR2, true}});
  reader.read("monitor", options.monitor);
  const auto make_step = [options](const Model& model, const TrainingData& data,
                                   const MemoryPolicy&) {
    check_targets(*data.train, "training");
    check_mixing(options.mixing, *data.train);
    if (data.validation) {
      check_targets(*data.validation, "validation");
      check_same_targets(data);
      if (options.monitor == kR2) check_defined_r2(*data.validation);
    }
    return std::make_unique<RegressionStep>(model, std::ssize(data.train->describe().classes),
                                            options,
                                            trained_targets(*data.train, options.standardizes));
  };
  return make_training_stage(reader,
                             {.make_step = make_step, .higher_is_better = higher_is_better});
}

}  // namespace

extern const runner::StageKind kTrainRegression = {.name = "train.regression",
                                                   .create = create_target_regression};

}  // namespace stages
