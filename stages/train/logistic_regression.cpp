#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/plan/plan_forward.h"
#include "stages/train/calibration.h"
#include "stages/train/class_weights.h"
#include "stages/train/earlier_weights.h"
#include "stages/train/single_checkpoint.h"
#include "stages/train/softmax_fit.h"
#include "stages/train/strength_search.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::int64_t kSmokeIterations = 2;

struct RegressionOptions {
  std::optional<double> l2_strength;  // nullopt: searched in `range`
  StrengthRange range;
  bool refits = true;
  std::int64_t max_iterations = 0;
  double tolerance = 0;
  at::ScalarType dtype = at::kDouble;
  DecisionFit calibration;
};

/// The features of the training data, followed by those of the validation data.
struct FeatureRows {
  at::Tensor features, labels;
  std::int64_t trained = 0;  // rows of the training data

  at::Tensor of_training(const at::Tensor& rows) const { return rows.narrow(0, 0, trained); }
  at::Tensor of_validation(const at::Tensor& rows) const {
    return rows.narrow(0, trained, rows.size(0) - trained);
  }
};

/// Returns the width of the data's features. Throws if it has none.
std::int64_t feature_width(const DatasetDescription& data) {
  const auto found = std::ranges::find(data.tensors, "features", &TensorSpec::name);
  if (found != data.tensors.end() && found->shape.size() == 1) return found->shape[0];
  throw StageError(ErrorCode::kOptionConflict,
                   "the training data has no features, one row of numbers for each image")
      .with_help(
          "connect it to a data.features stage with cache: true, and do not augment the images");
}

/// Throws unless the network's only trainable part is a linear head on `width` features.
void check_head(const torch::nn::Module& network, const std::string& model, std::int64_t width,
                std::int64_t classes) {
  const NamedTensors trained = trained_parameters(network);
  const bool has_head = trained.size() == 2 && trained.contains("head.weight") &&
                        trained.contains("head.bias") &&
                        trained.at("head.weight").sizes() == at::IntArrayRef({classes, width});
  if (has_head) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "'" + model + "' is not a linear head on frozen features of " +
                       std::to_string(width) + " values, as this training requires")
      .with_help("use model.linear_probe, or train this model with train.supervised");
}

class LogisticRegressionStage final : public runner::Stage {
 public:
  explicit LogisticRegressionStage(RegressionOptions options) : options_(std::move(options)) {}

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const auto trained = find_earlier_weights(options_of_single(), context);
    const std::shared_ptr<Checkpoint> checkpoint = single_checkpoint(inputs, trained);
    const auto model = inputs.get<Model>("model");
    if (trained) {
      checkpoint->network = model->outline(trained->data);
      return runner::Outputs{{"checkpoint", checkpoint}};
    }
    check(inputs);
    const auto data = inputs.get<Dataset>("train"), validation = inputs.find<Dataset>("validation");
    const DatasetDescription train = data->describe();
    const auto policy = inputs.get<MemoryPolicy>("memory");
    const ForwardToPlan forward{
        .name = inputs.source("model"),
        .data = train,
        .dataset = data.get(),
        .loader = data->loader(),
        .batch_size = 1,
        .policy = *policy,
        .outline = [&] { return model->outline(source_of(train)); },
        .batch_option = {},
        .forward =
            [&](torch::nn::Module& network, const NamedTensors& batch) {
              return model->forward(network, batch).at("logits");
            },
        .besides =
            [&](PlannedForward& planned) { add_fit(planned.plan, train, validation.get()); }};
    context.plan(plan_forward(forward, /*keeps_results=*/false, context).plan);
    checkpoint->network = model->outline(source_of(train));
    return runner::Outputs{{"checkpoint", checkpoint}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const auto trained = find_earlier_weights(options_of_single(), context);
    const std::shared_ptr<Checkpoint> checkpoint = single_checkpoint(inputs, trained);
    if (trained) {
      reuse_single(*trained, *checkpoint, context);
    } else {
      check(inputs);
      fit_anew(inputs, *checkpoint, context);
    }
    checkpoint->network->eval();
    return {{"checkpoint", checkpoint}};
  }

 private:
  void check(const runner::Inputs& inputs) const {
    const auto train = inputs.get<Dataset>("train"),
               validation = inputs.find<Dataset>("validation");
    const DatasetDescription data = train->describe();
    if (data.size == 0)
      throw StageError(ErrorCode::kTooFewSamples, "the training data has no samples")
          .with_help("assign a fraction of the data to it, such as data.split.train=0.7");
    const std::int64_t width = feature_width(data);
    const auto network = inputs.get<Model>("model")->outline(source_of(data));
    check_head(*network, inputs.source("model"), width, logits_for(data));
    check_one_class_each(*train);
    check_same_classes(*train, validation.get());
    const bool has_validation = validation && validation->describe().size > 0;
    if (!options_.l2_strength && !has_validation)
      throw StageError(ErrorCode::kOptionConflict,
                       "l2_strength is null, but there is no validation data to choose it with")
          .at("/l2_strength")
          .with_help("add a validation part to the data, or set l2_strength to a number");
    check_calibration(options_.calibration, logits_for(data),
                      has_validation ? validation.get() : nullptr);
    if (options_.calibration.fits_anything() && options_.refits)
      throw StageError(
          ErrorCode::kOptionConflict,
          "calibration needs data that the head is not fitted to, but with refit: true "
          "it is also fitted to the validation data")
          .at("/calibration")
          .with_help("set refit: false, or remove the calibration");
  }

  void add_fit(runner::MemoryPlan& plan, const DatasetDescription& train,
               const Dataset* validation) const {
    const auto bytes = static_cast<std::int64_t>(c10::elementSize(options_.dtype));
    const std::int64_t width = feature_width(train), classes = logits_for(train),
                       rows = train.size + (validation ? validation->describe().size : 0);
    constexpr std::int64_t kLabel = sizeof(std::int64_t);
    add_term(plan, {"features of the fit", rows * (width * bytes + kLabel),
                    "of training and validation, in the fit's number format"});
    add_term(plan, {"fit", softmax_fit_bytes(rows, width, classes, bytes), "L-BFGS"});
    if (const std::int64_t calibrated = calibration_bytes(options_.calibration, classes);
        calibrated > 0)
      add_term(plan, {"calibration", calibrated * (rows - train.size),
                      "logits and labels of all validation samples"});
    if (const std::int64_t held = validation ? validation->held().on_host : 0; held > 0)
      add_term(plan, {"validation data", held, "kept in memory"});
  }

  /// Reads all features. Samples that the data skips are left out.
  FeatureRows read_rows(const Dataset& train, const Dataset* validation,
                        const runner::RunContext& context) const {
    const DatasetDescription data = train.describe();
    const std::int64_t classes = logits_for(data);
    const std::int64_t all = data.size + (validation ? validation->describe().size : 0);
    FeatureRows rows{.features = torch::empty({all, feature_width(data)}, options_.dtype),
                     .labels = torch::empty({all}, at::kLong)};
    std::int64_t count = 0;
    const auto add = [&](const Dataset& dataset) {
      for (std::int64_t index = 0, size = dataset.describe().size; index < size; ++index) {
        if (context.cancelled()) throw runner::Cancelled{};
        const std::optional<NamedTensors> sample = dataset.sample(/*epoch=*/0, index);
        if (!sample) continue;
        const auto label = sample->at("label").item<std::int64_t>();
        if (label < 0 || label >= classes)
          throw StageError(ErrorCode::kLabelOutOfRange,
                           "'" + dataset.sample_name(index) + "' has the label " +
                               std::to_string(label) + ", outside the " + std::to_string(classes) +
                               " classes");
        rows.features[count].copy_(sample->at("features"));
        rows.labels[count++].fill_(label);
      }
    };
    add(train);
    rows.trained = count;
    if (validation) add(*validation);
    if (rows.trained == 0)
      throw StageError(ErrorCode::kTooFewSamples, "no sample of the training data could be read");
    rows.features = rows.features.narrow(0, 0, count);
    rows.labels = rows.labels.narrow(0, 0, count);
    return rows;
  }

  /// Fits a classifier, and tells the user if it has not converged.
  SoftmaxFit fit(const at::Tensor& features, const at::Tensor& labels, std::int64_t classes,
                 double strength, runner::RunContext& context) const {
    const std::int64_t most = context.node().smoke ? kSmokeIterations : options_.max_iterations;
    const SoftmaxFit fit = fit_softmax(features, labels,
                                       {.classes = classes,
                                        .l2_strength = strength,
                                        .max_iterations = most,
                                        .tolerance = options_.tolerance},
                                       [&] {
                                         if (context.cancelled()) throw runner::Cancelled{};
                                       });
    if (fit.largest_gradient > options_.tolerance && !context.node().smoke)
      context.say("l2_strength " + text_of(strength) + ": not converged after " +
                  std::to_string(fit.iterations) + " steps: the gradient is " +
                  text_of(fit.largest_gradient) + ", above the tolerance " +
                  text_of(options_.tolerance));
    return fit;
  }

  /// Measures strengths on the validation data, records each, and returns the best.
  double searched_strength(const FeatureRows& rows, std::int64_t classes,
                           runner::RunContext& context) const {
    nlohmann::ordered_json measured = nlohmann::ordered_json::array();
    const auto accuracy = [&](double strength) {
      const SoftmaxFit one = fit(rows.of_training(rows.features), rows.of_training(rows.labels),
                                 classes, strength, context);
      const double share =
          accuracy_of(one, rows.of_validation(rows.features), rows.of_validation(rows.labels));
      const auto step = static_cast<std::int64_t>(measured.size()) + 1;
      measured.push_back({{"l2_strength", strength},
                          {"validation_accuracy", share},
                          {"steps", one.iterations},
                          {"largest_gradient", one.largest_gradient},
                          {"loss", one.loss}});
      context.metric("search/l2_strength", strength, step);
      context.metric("search/accuracy", share, step);
      context.progress({.phase = "search", .step = step});
      context.detail("l2_strength " + text_of(strength) + ": accuracy " + text_of(share) + ", " +
                     std::to_string(one.iterations) + " steps");
      return share;
    };
    const std::vector<MeasuredStrength> all = search_strength(options_.range, accuracy);
    const MeasuredStrength best = best_of(all);
    write(context, "l2_strengths.json", {{"chosen", best.strength}, {"measured", measured}});
    context.say("l2_strength " + text_of(best.strength) + " is the best of " +
                std::to_string(all.size()) + ", with accuracy " + text_of(best.accuracy) +
                " on the validation data");
    const StrengthRange& range = options_.range;
    if (range.size() > 1 && (best.strength == range.least || best.strength == range.most))
      context.say(
          "it is at an end of the search range: lower search.smallest or raise search.largest");
    return best.strength;
  }

  void fit_anew(const runner::Inputs& inputs, Checkpoint& checkpoint,
                runner::RunContext& context) const {
    begin_single(context);
    const auto train = inputs.get<Dataset>("train"),
               validation = inputs.find<Dataset>("validation");
    const DatasetDescription data = train->describe();
    const DatasetDescription& images = source_of(data);
    checkpoint.network = checkpoint.model->build(images, context.node().seed);
    for (const std::string& line : checkpoint.model->notes(*checkpoint.network)) context.say(line);
    const std::int64_t classes = logits_for(data);
    const FeatureRows rows = read_rows(*train, validation.get(), context);
    const double strength =
        options_.l2_strength ? *options_.l2_strength : searched_strength(rows, classes, context);
    const bool is_refitted = options_.refits && rows.features.size(0) > rows.trained;
    const at::Tensor features = is_refitted ? rows.features : rows.of_training(rows.features),
                     labels = is_refitted ? rows.labels : rows.of_training(rows.labels);
    const SoftmaxFit result = fit(features, labels, classes, strength, context);
    context.say("fitted on " + std::to_string(features.size(0)) + " samples of the training" +
                (is_refitted ? " and validation" : "") + " data in " +
                std::to_string(result.iterations) + " steps: loss " + text_of(result.loss) +
                ", largest element of the gradient " + text_of(result.largest_gradient));
    context.metric("train/l2_strength", strength, 1);
    context.metric("train/loss", result.loss, 1);
    context.metric("train/accuracy", accuracy_of(result, features, labels), 1);
    if (!is_refitted && rows.features.size(0) > rows.trained) {
      const double share =
          accuracy_of(result, rows.of_validation(rows.features), rows.of_validation(rows.labels));
      context.metric("validation/accuracy", share, 1);
      checkpoint.validation["accuracy"] = share;
      if (options_.calibration.fits_anything()) calibrate(result, rows, checkpoint);
    }
    {
      const torch::NoGradGuard no_graph;
      const NamedTensors head = trained_parameters(*checkpoint.network);
      at::Tensor(head.at("head.weight")).copy_(result.weight);
      at::Tensor(head.at("head.bias")).copy_(result.bias);
    }
    save_single(checkpoint, images, context);
    checkpoint.network->to(at::Device(context.node().device));
  }

  void calibrate(const SoftmaxFit& fit, const FeatureRows& rows, Checkpoint& checkpoint) const {
    const at::Tensor logits =
        torch::addmm(fit.bias, rows.of_validation(rows.features), fit.weight.t());
    const FittedDecision decision = fitted_decision(
        calibration_rows(logits, rows.of_validation(rows.labels)), options_.calibration);
    for (const auto& [name, value] : named_numbers(decision)) checkpoint.validation[name] = value;
  }

  static void write(const runner::RunContext& context, const char* name,
                    const nlohmann::ordered_json& json) {
    if (context.node().folder.empty()) return;
    runner::write_atomically(context.node().folder / name, json.dump(2) + "\n");
  }

  static std::string text_of(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", number);
    return text;
  }

  RegressionOptions options_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_regression(runner::ConfigReader& reader) {
  RegressionOptions options;
  reader.read("l2_strength", options.l2_strength);
  runner::ConfigReader& search = reader.section("search");
  search.read("smallest", options.range.least);
  search.read("largest", options.range.most);
  search.read("per_decade", options.range.per_decade);
  if (options.range.least > options.range.most)
    search.fail("smallest", ErrorCode::kOptionConflict, "smallest is above largest", "swap them");
  reader.read("refit", options.refits);
  reader.read("max_steps", options.max_iterations);
  reader.read("tolerance", options.tolerance);
  options.dtype = runner::choice<at::ScalarType>(reader, "dtype",
                                                 {{"fp64", at::kDouble}, {"fp32", at::kFloat}});
  options.calibration = read_calibration(reader);
  if (auto errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(
      std::make_unique<LogisticRegressionStage>(std::move(options)));
}

}  // namespace

extern const runner::StageKind kTrainLogisticRegression = {.name = "train.logistic_regression",
                                                           .create = create_regression};

}  // namespace stages
