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
#include "stages/ranks/rank_group.h"
#include "stages/train/calibration.h"
#include "stages/train/class_weights.h"
#include "stages/train/divided_fits.h"
#include "stages/train/earlier_weights.h"
#include "stages/train/feature_rows.h"
#include "stages/train/single_checkpoint.h"
#include "stages/train/softmax_fit.h"
#include "stages/train/strength_search.h"
#include "stages/train/training_ranks.h"
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
                       std::to_string(width) + " values, as this training stage requires")
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
    const runner::RankOfRun& ranks = context.node().ranks;
    const bool is_reused = is_reused_by_first(trained, ranks);
    if (!is_reused) check(inputs);
    if (trained) {
      reuse_single(*trained, *checkpoint, context);
    } else if (ranks.rank == 0) {
      fit_anew(inputs, *checkpoint, context);
    } else {  // only rank 0 fits and saves the result, and evaluates it
      if (!is_reused && !options_.l2_strength)
        searched_strength(inputs, read_rows(inputs, context), context);
      checkpoint->network = checkpoint->model->outline(images_of(inputs));
    }
    checkpoint->network->eval();
    return {{"checkpoint", checkpoint}};
  }

 private:
  static DatasetDescription images_of(const runner::Inputs& inputs) {
    return source_of(inputs.get<Dataset>("train")->describe());
  }

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

  FeatureRows read_rows(const runner::Inputs& inputs, const runner::RunContext& context) const {
    return read_feature_rows(*inputs.get<Dataset>("train"),
                             inputs.find<Dataset>("validation").get(), options_.dtype, context);
  }

  SoftmaxFit fit(const at::Tensor& features, const at::Tensor& labels, std::int64_t classes,
                 double strength, const runner::RunContext& context) const {
    const std::int64_t most = context.node().smoke ? kSmokeIterations : options_.max_iterations;
    return fit_softmax(features, labels,
                       {.classes = classes,
                        .l2_strength = strength,
                        .max_iterations = most,
                        .tolerance = options_.tolerance},
                       [&] {
                         if (context.canceled()) throw runner::Canceled{};
                       });
  }

  /// Informs the user if a fit has not converged.
  void check_converged(double strength, std::int64_t steps, double largest_gradient,
                       runner::RunContext& context) const {
    if (largest_gradient <= options_.tolerance || context.node().smoke) return;
    context.say("l2_strength " + text_of(strength) + ": not converged after " +
                std::to_string(steps) + " steps: the gradient is " + text_of(largest_gradient) +
                ", above the tolerance " + text_of(options_.tolerance));
  }

  /// Measures strengths on the validation data, together with the other ranks, and returns the
  /// best. Rank 0 records them.
  double searched_strength(const runner::Inputs& inputs, const FeatureRows& rows,
                           runner::RunContext& context) const {
    RankGroup* const group = group_of(context.node().ranks);
    const auto train = inputs.get<Dataset>("train"),
               validation = inputs.find<Dataset>("validation");
    compare_data(group, *train, validation.get());
    const std::int64_t classes = logits_for(train->describe());
    std::vector<MeasuredFit> all;
    std::int64_t rounds = 0, fits = 0;
    const auto measured = [&](double strength) {
      const SoftmaxFit one = fit(rows.of_training(rows.features), rows.of_training(rows.labels),
                                 classes, strength, context);
      context.progress({.phase = "search", .step = ++fits});
      return MeasuredFit{.strength = strength,
                         .accuracy = accuracy_of(one, rows.of_validation(rows.features),
                                                 rows.of_validation(rows.labels)),
                         .steps = one.iterations,
                         .largest_gradient = one.largest_gradient,
                         .loss = one.loss};
    };
    const auto accuracies = [&](const std::vector<double>& strengths) {
      begin_part("search round " + std::to_string(++rounds), context);
      std::vector<double> result;
      for (const MeasuredFit& one : divided_fits(strengths, group, measured)) {
        result.push_back(one.accuracy);
        all.push_back(one);
        if (context.node().ranks.rank == 0) record(one, std::ssize(all), context);
      }
      return result;
    };
    const MeasuredStrength best = best_of(search_strength(options_.range, accuracies));
    if (context.node().ranks.rank == 0) record_search(best, all, context);
    return best.strength;
  }

  void record(const MeasuredFit& one, std::int64_t step, runner::RunContext& context) const {
    check_converged(one.strength, one.steps, one.largest_gradient, context);
    context.metric("search/l2_strength", one.strength, step);
    context.metric("search/accuracy", one.accuracy, step);
    context.detail("l2_strength " + text_of(one.strength) + ": accuracy " + text_of(one.accuracy) +
                   ", " + std::to_string(one.steps) + " steps");
  }

  void record_search(const MeasuredStrength& best, const std::vector<MeasuredFit>& all,
                     runner::RunContext& context) const {
    nlohmann::ordered_json measured = nlohmann::ordered_json::array();
    for (const MeasuredFit& one : all)
      measured.push_back({{"l2_strength", one.strength},
                          {"validation_accuracy", one.accuracy},
                          {"steps", one.steps},
                          {"largest_gradient", one.largest_gradient},
                          {"loss", one.loss}});
    write(context, "l2_strengths.json", {{"chosen", best.strength}, {"measured", measured}});
    context.say("l2_strength " + text_of(best.strength) + " is the best of " +
                std::to_string(all.size()) + ", with accuracy " + text_of(best.accuracy) +
                " on the validation data");
    const StrengthRange& range = options_.range;
    if (range.size() > 1 && (best.strength == range.least || best.strength == range.most))
      context.say(
          "it is at an end of the search range: lower search.smallest or raise search.largest");
  }

  void fit_anew(const runner::Inputs& inputs, Checkpoint& checkpoint,
                runner::RunContext& context) const {
    begin_single(context);
    const DatasetDescription images = images_of(inputs);
    checkpoint.network = checkpoint.model->build(images, context.node().seed);
    for (const std::string& line : checkpoint.model->notes(*checkpoint.network)) context.say(line);
    const FeatureRows rows = read_rows(inputs, context);
    const double strength =
        options_.l2_strength ? *options_.l2_strength : searched_strength(inputs, rows, context);
    const bool is_refitted = options_.refits && rows.features.size(0) > rows.trained;
    const at::Tensor features = is_refitted ? rows.features : rows.of_training(rows.features),
                     labels = is_refitted ? rows.labels : rows.of_training(rows.labels);
    const std::int64_t classes = logits_for(inputs.get<Dataset>("train")->describe());
    const SoftmaxFit result = fit(features, labels, classes, strength, context);
    check_converged(strength, result.iterations, result.largest_gradient, context);
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
    search.fail("smallest", ErrorCode::kOptionConflict, "smallest is above largest",
                "swap smallest and largest");
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
