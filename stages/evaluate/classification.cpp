#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/disk/new_file.h"
#include "runner/stage/plan_context.h"
#include "runner/stage/run_context.h"
#include "runner/stage/run_layout.h"
#include "runner/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/artifact/results.h"
#include "stages/memory/policy.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/classification_report.h"
#include "stages/evaluate/csv.h"
#include "stages/evaluate/evaluation_results.h"
#include "stages/evaluate/predictor.h"
#include "stages/memory/plan_terms.h"
#include "stages/memory/memory_budget.h"
#include "stages/memory/plan_forward.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct ClassificationConfig {
  std::int64_t batch_size = 0;
  std::vector<std::int64_t> top_k;
  bool csv = false;
};

/// Throws where a label of the test set does not mean the class it meant in training.
void check_classes(const std::vector<std::string>& tested, const std::vector<std::string>& trained) {
  const std::string help = "evaluate on the classes the model was trained on, in the same order";
  const std::size_t common = std::min(tested.size(), trained.size());
  for (std::size_t label = 0; label < common; ++label) {
    if (tested[label] == trained[label]) continue;
    throw StageError(ErrorCode::kLabelOutOfRange, "label " + std::to_string(label) + " is '" + tested[label] +
                                                      "' in the test set and '" + trained[label] +
                                                      "' in the checkpoint")
        .with_help(help);
  }
  if (tested.size() == trained.size()) return;
  const bool has_more = tested.size() > trained.size();
  throw StageError(ErrorCode::kLabelOutOfRange, "the test set has " + std::to_string(tested.size()) +
                                                    " classes, the checkpoint " + std::to_string(trained.size()) +
                                                    ": '" + (has_more ? tested : trained)[common] +
                                                    "' is only in the " + (has_more ? "test set" : "checkpoint"))
      .with_help(help);
}

/// Throws where the network was made for samples of another shape, and says so where they are prepared otherwise.
void check_inputs(const DatasetDescription& test, const Checkpoint& checkpoint, runner::RunContext& context) {
  const auto in_words = [](const std::vector<std::int64_t>& shape) { return nlohmann::json(shape).dump(); };
  for (const TensorSpec& trained : checkpoint.inputs) {
    const auto tested = std::ranges::find(test.tensors, trained.name, &TensorSpec::name);
    if (tested == test.tensors.end() || tested->shape == trained.shape) continue;
    throw StageError(ErrorCode::kOptionConflict, "'" + trained.name + "' is " + in_words(tested->shape) +
                                                     " in the test set, and was " + in_words(trained.shape) +
                                                     " in training")
        .with_help("give the data stage the size it had then");
  }
  if (!checkpoint.transform.empty() && test.transform != checkpoint.transform) {
    context.say("the test set is not prepared as the training data was: " + test.transform + " now, " +
                checkpoint.transform + " then");
  }
}

/// A name for each output of the network, which may have more of them than it was trained with classes.
std::vector<std::string> output_names(std::vector<std::string> classes, std::int64_t outputs) {
  while (static_cast<std::int64_t>(classes.size()) < outputs) {
    classes.push_back("output " + std::to_string(classes.size()));
  }
  return classes;
}

void say_left_out(const std::vector<std::int64_t>& top_k, std::int64_t classes, runner::RunContext& context) {
  for (const std::int64_t k : top_k) {
    if (k < classes) continue;
    context.say("top-" + std::to_string(k) + " is left out: with " + std::to_string(classes) +
                " classes it is 100 % by definition");
  }
}

class ClassificationStage : public runner::Stage {
 public:
  explicit ClassificationStage(ClassificationConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs, runner::PlanContext& context) override {
    const auto test = inputs.get<Dataset>("test");
    const auto checkpoint = inputs.get<Checkpoint>("checkpoint");
    const auto memory = inputs.find<MemoryPolicy>("memory");
    const auto [batch_size, numerics] = settle(*test, *checkpoint, memory.get(), context);
    const MemoryPolicy by_default;
    const DatasetDescription data = test->describe();
    const DatasetDescription trained_on{
        .size = data.size, .tensors = checkpoint->inputs, .classes = checkpoint->classes};
    const ForwardToPlan forward{.name = checkpoint->model_stage,
                                .data = data,
                                .loader = test->loader(),
                                .batch_size = batch_size,
                                .policy = memory ? *memory : by_default,
                                .outline = [&] { return checkpoint->model->outline(trained_on); },
                                .forward =
                                    [&](torch::nn::Module& network, const NamedTensors& inputs) {
                                      return checkpoint->model->forward(network, inputs).at("logits");
                                    }};
    runner::MemoryPlan plan = plan_forward(forward, /*keeps_results=*/true, context).plan;
    add_held_memory(plan, at::Device(std::string(context.device())).type(), *test);
    context.plan(std::move(plan));
    return runner::Outputs{};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const auto test = inputs.get<Dataset>("test");
    const auto checkpoint = inputs.get<Checkpoint>("checkpoint");
    const auto memory = inputs.find<MemoryPolicy>("memory");
    const at::Device device{std::string(context.device())};
    const ScopedMemoryBudget budget(memory_budget(memory ? *memory : MemoryPolicy(), device), device);
    const auto [batch_size, numerics] = settle(*test, *checkpoint, memory.get(), context);
    const ClassifiedSamples samples = classify(test, *checkpoint, batch_size, numerics, context);
    const std::vector<std::string> classes = output_names(checkpoint->classes, samples.logits.size(1));
    const ClassificationMetrics metrics = classification_metrics(samples.logits, samples.labels, config_.top_k);
    const ClassificationCurves curves = classification_curves(samples.logits, samples.labels);
    write(samples, metrics, curves, classes, *checkpoint, context);
    return report(samples, metrics, curves, classes, *checkpoint, context);
  }

 private:
  /// How the test set is gone through.
  struct Settled {
    std::int64_t batch_size;
    Numerics numerics;
  };
  Settled settle(const Dataset& test, const Checkpoint& checkpoint, const MemoryPolicy* memory,
                 runner::RunContext& context) const {
    const DatasetDescription description = test.describe();
    if (description.size == 0) {
      throw StageError(ErrorCode::kTooFewSamples, "the test set is empty")
          .with_help("give the data stage samples for testing, or a share of them");
    }
    check_classes(description.classes, checkpoint.classes);
    check_inputs(description, checkpoint, context);
    if (std::ranges::find(description.tensors, "label", &TensorSpec::name) == description.tensors.end()) {
      throw StageError(ErrorCode::kLabelOutOfRange, "the test set has no labels")
          .with_help("evaluation compares predictions with labels: wire a labelled data set");
    }
    const std::int64_t limit = memory && memory->micro_batch ? *memory->micro_batch : config_.batch_size;
    return {std::min(limit, config_.batch_size),
            memory ? choose_numerics(memory->numerics(), *checkpoint.network, checkpoint.model_stage, context)
                   : Numerics{}};
  }

  void write(const ClassifiedSamples& samples, const ClassificationMetrics& metrics, const ClassificationCurves& curves,
             const std::vector<std::string>& classes, const Checkpoint& checkpoint,
             const runner::RunContext& context) const {
    nlohmann::ordered_json json = {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}};
    json.update(to_json(metrics, classes));
    for (const auto& [name, value] : summary(curves)) json[name] = value;
    json["skipped"] = samples.skipped;
    json["smoke"] = context.smoke();
    // Class names come from folders, which need not be UTF-8.
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    runner::write_atomically(runner::NodeLayout(context.folder()).metrics(), json.dump(2, ' ', false, replace) + "\n");
    runner::write_atomically(context.folder() / "evaluation_results.json",
                             evaluation_results(samples, metrics, classes));
    runner::write_atomically(runner::NodeLayout(context.folder()).curves(),
                             to_json(curves, classes).dump(-1, ' ', false, replace) + "\n");
    runner::write_atomically(context.folder() / "report.txt", report_text(metrics, classes));
    if (metrics.confusion.classes() <= kLargestMatrix) {
      runner::write_atomically(context.folder() / "confusion_matrix.csv", confusion_csv(metrics.confusion, classes));
    }
    if (config_.csv) runner::write_atomically(context.folder() / "predictions.csv", predictions_csv(samples, classes));
  }

  runner::Outputs report(const ClassifiedSamples& samples, const ClassificationMetrics& metrics,
                         const ClassificationCurves& curves, const std::vector<std::string>& classes,
                         const Checkpoint& checkpoint, runner::RunContext& context) const {
    const auto numbers = std::make_shared<Metrics>();
    numbers->values = summary(metrics);
    for (auto& value : summary(curves)) numbers->values.push_back(std::move(value));
    for (const auto& [name, value] : numbers->values) context.metric("evaluate/" + name, value, checkpoint.step);
    const auto predictions = std::make_shared<Predictions>();
    predictions->names = samples.names;
    predictions->scores = samples.logits.to(at::kDouble).softmax(1).to(at::kFloat);
    predictions->labels = samples.labels;
    predictions->classes = classes;

    say_left_out(config_.top_k, metrics.confusion.classes(), context);
    if (metrics.confusion.classes() > kLargestMatrix) {
      context.say("the confusion matrix is left out: more than " + std::to_string(kLargestMatrix) + " classes");
    }
    if (samples.skipped > 0) {
      context.say(std::to_string(samples.skipped) + " samples were skipped because they could not be read");
    }
    context.say(headline(metrics));
    return {{"metrics", numbers}, {"predictions", predictions}};
  }

  const ClassificationConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
  ClassificationConfig config;
  reader.read("batch_size", config.batch_size);
  reader.read("top_k", config.top_k);
  reader.read("csv", config.csv);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  std::ranges::sort(config.top_k);
  return std::unique_ptr<runner::Stage>(std::make_unique<ClassificationStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateClassification = {"evaluate.classification", create};

}  // namespace stages
