#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
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
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/value.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/tested_classes.h"
#include "stages/evaluate/trained_images.h"
#include "stages/python/python_host.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct PythonEvaluationConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::string entry;  ///< "my_metrics.py:measure"
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  std::string output;  ///< the network's output to evaluate
  bool csv = true;
};

/// Appends a column name for each value of a sample: "output", or "output_0", "output_1" and so
/// on.
void add_columns(const std::string& name, const at::Tensor& rows,
                 std::vector<std::string>& columns) {
  const std::int64_t count = rows.size(1);
  for (std::int64_t i = 0; i < count; ++i)
    columns.push_back(count == 1 ? name : name + "_" + std::to_string(i));
}

void add_numbers(const at::Tensor& row, std::vector<std::string>& fields) {
  for (std::int64_t i = 0; i < row.size(0); ++i)
    fields.push_back(runner::csv_number(row[i].item<double>()));
}

/// Returns a CSV with one line per sample: its name, its target and the network's output.
std::string outputs_csv(const ClassifiedSamples& samples) {
  const std::int64_t count = samples.logits.size(0);
  const at::Tensor outputs = samples.logits.reshape({count, -1}),
                   targets = samples.labels.reshape({count, -1});
  std::vector<std::string> columns = {"name"};
  add_columns("target", targets, columns);
  add_columns("output", outputs, columns);
  std::string text = runner::csv_line(columns);
  for (std::int64_t row = 0; row < count; ++row) {
    std::vector<std::string> fields = {samples.names[static_cast<std::size_t>(row)]};
    add_numbers(targets[row], fields);
    add_numbers(outputs[row], fields);
    text += runner::csv_line(fields);
  }
  return text;
}

/// Evaluates a network with metrics that a Python function computes from its outputs.
class PythonEvaluationStage final : public runner::Stage {
 public:
  explicit PythonEvaluationStage(PythonEvaluationConfig config) : config_(std::move(config)) {}

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    config_.predictor.batch_size = network.plan(context).batch_size;
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    const Checkpoint& checkpoint = network.checkpoint();
    const ScopedMemoryBudget budget = network.hold_budget(context);
    ClassifiedSamples samples = network.classify(context);
    report_remarks({&network.test()}, checkpoint.step, context);
    samples.logits = samples.logits.to(at::kFloat);
    const std::vector<std::string> tested = network.test().describe().classes;
    const bool are_classes = config_.predictor.target == "label" && !tested.empty() &&
                             samples.labels.scalar_type() == at::kLong && samples.labels.dim() == 1;
    if (are_classes)
      samples.labels = TestedClasses(tested, checkpoint.classes).trained_labels(samples.labels);
    const auto numbers = std::make_shared<Metrics>();
    numbers->values = measured(samples, checkpoint, context);
    for (const auto& [name, value] : numbers->values)
      context.metric("evaluate/" + name, value, checkpoint.step);
    write(samples, numbers->values, checkpoint, context);
    if (samples.skipped > 0) {
      context.say(std::to_string(samples.skipped) +
                  " samples were skipped because they could not be read");
    }
    context.say(headline(numbers->values));
    return {{"metrics", numbers}};
  }

 private:
  using Values = std::vector<std::pair<std::string, double>>;

  Predictor predictor(const runner::Inputs& inputs) const {
    const auto model = inputs.get<Checkpoint>("checkpoint")->model;
    Predictor::Options options = config_.predictor;
    options.outputs = [model, output = config_.output, flip = options.flip](
                          torch::nn::Module& network, const NamedTensors& tensors) {
      return flipped_mean(tensors, flip, [&](const NamedTensors& seen) {
        return output_of(model->forward(network, seen), output, seen.begin()->second.size(0));
      });
    };
    Predictor predictor(inputs, options);
    const std::vector<TensorSpec> tensors = predictor.test().describe().tensors;
    if (std::ranges::find(tensors, config_.predictor.target, &TensorSpec::name) != tensors.end())
      return predictor;
    std::vector<std::string> names;
    for (const TensorSpec& spec : tensors) names.push_back(spec.name);
    throw StageError(ErrorCode::kOptionConflict,
                     "the test set's samples have no tensor '" + config_.predictor.target + "'")
        .at("/target")
        .with_help("set target to a tensor that they have: " + runner::either(names, names.size()));
  }

  /// Returns the output `name` with shape (samples, columns), regardless of the shape of a sample's
  /// output.
  static at::Tensor output_of(const NamedTensors& outputs, const std::string& name,
                              std::int64_t samples) {
    std::vector<std::string> names;
    for (const auto& [other, tensor] : outputs) names.push_back(other);
    if (!outputs.contains(name)) {
      throw StageError(ErrorCode::kOptionConflict, "the network has no output '" + name + "'")
          .at("/output")
          .with_help("set output to one of its outputs: " + runner::either(names, names.size()));
    }
    const at::Tensor output = outputs.at(name);
    if (output.dim() == 0 || output.size(0) != samples) {
      throw StageError(ErrorCode::kOptionConflict,
                       "the network's output '" + name + "' does not have one row per sample")
          .at("/output")
          .with_help("set output to another of its outputs: " +
                     runner::either(names, names.size()));
    }
    return output.reshape({samples, output.numel() / samples});
  }

  Values measured(const ClassifiedSamples& samples, const Checkpoint& checkpoint,
                  const runner::RunContext& context) const {
    give_to_python("outputs", samples.logits);
    give_to_python("targets", samples.labels);
    nlohmann::ordered_json reply;
    try {
      reply = call_python({{"do", "measure"},
                           {"entry", config_.entry},
                           {"arguments", config_.arguments},
                           {"seed", context.node().seed},
                           {"classes", checkpoint.classes},
                           {"names", samples.names}});
    } catch (StageError& error) {
      throw std::move(error).at("/entry");
    }
    clear_python_tensors();
    Values values;
    for (const auto& one : reply.at("metrics"))
      values.emplace_back(one.at(0).get<std::string>(), one.at(1).get<double>());
    return values;
  }

  void write(const ClassifiedSamples& samples, const Values& values, const Checkpoint& checkpoint,
             const runner::RunContext& context) const {
    nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
    for (const auto& [name, value] : values) metrics[name] = value;
    const nlohmann::ordered_json json = {
        {"epoch", checkpoint.epoch},         {"step", checkpoint.step},
        {"samples", samples.logits.size(0)}, {"metrics", metrics},
        {"skipped", samples.skipped},        {"smoke", context.node().smoke}};
    runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(),
                             json.dump(2) + "\n");
    if (config_.csv)
      runner::write_atomically(context.node().folder / "predictions.csv", outputs_csv(samples));
  }

  static std::string headline(const Values& values) {
    constexpr std::size_t kShown = 5;
    std::vector<std::string> words;
    for (const auto& [name, value] : values) {
      std::ostringstream number;
      number.precision(4);
      number << value;
      words.push_back(name + " " + number.str());
    }
    return runner::listed(words, kShown);
  }

  // plan() reduces the batch size to what fits in memory
  PythonEvaluationConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_python_evaluation(
    runner::ConfigReader& reader) {
  PythonEvaluationConfig config;
  reader.read("entry", config.entry);
  if (const runner::Value* const arguments = reader.raw("arguments"))
    config.arguments = nlohmann::ordered_json(runner::to_json(*arguments, /*hide_secrets=*/false));
  reader.read("target", config.predictor.target);
  reader.read("output", config.output);
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  config.predictor.flip = runner::choice<TestTimeFlip>(reader, "test_time_flip", kTestTimeFlips);
  config.predictor.pointer = reader.pointer();
  reader.read("csv", config.csv);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<PythonEvaluationStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluatePython = {"evaluate.python", create_python_evaluation};

}  // namespace stages
