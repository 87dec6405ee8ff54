#include "stages/train/class_weights.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/targets.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

runner::StageError weights_error(const std::string& message, const std::string& help) {
  return runner::StageError(runner::ErrorCode::kOptionConflict, message)
      .at("/class_weights")
      .with_help(help);
}

[[noreturn]] void refuse_weights(const std::string& message, const std::string& help) {
  throw weights_error(message, help);
}

std::vector<double> balanced_weights(const Dataset& train,
                                     const std::vector<std::string>& classes) {
  const std::vector<std::int64_t> labels = train.labels();
  if (labels.empty()) {
    refuse_weights(
        "class_weights: balanced needs the frequency of each class, but the training data does not "
        "provide it",
        "write a number for each class");
  }
  std::vector<double> weights;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const auto count = std::ranges::count(labels, static_cast<std::int64_t>(label));
    if (count == 0) {
      refuse_weights(
          "class_weights: balanced finds no training sample of the class '" + classes[label] + "'",
          "write a number for each class, or add samples of that class");
    }
    weights.push_back(static_cast<double>(labels.size()) / static_cast<double>(classes.size()) /
                      static_cast<double>(count));
  }
  return weights;
}

std::vector<double> listed_weights(const std::vector<double>& weights,
                                   const std::vector<std::string>& classes) {
  if (weights.size() == classes.size()) return weights;
  refuse_weights(
      "class_weights lists " + std::to_string(weights.size()) + " numbers for " +
          std::to_string(classes.size()) + " classes",
      "write one number for each class, in the order of their names, or map names to numbers");
}

std::vector<double> named_weights(const std::map<std::string, double>& named,
                                  const std::vector<std::string>& classes) {
  std::vector<double> weights(classes.size(), 1);
  std::set<std::size_t> seen;
  runner::FoundErrors unknown;
  for (const auto& [name, weight] : named) {
    const auto place = place_of_name(name, classes);
    if (!place) {
      unknown.add(
          weights_error("class_weights names a class that the training data lacks: '" + name + "'",
                        runner::did_you_mean(name, classes)));
    } else if (!seen.insert(*place).second) {
      unknown.add(weights_error(
          "class_weights names the class '" + classes[*place] + "' twice",
          "leave one of them out: they differ only in how their accents are encoded"));
    } else {
      weights[*place] = weight;
    }
  }
  unknown.throw_any();
  return weights;
}

/// True if `data` provides all labels and every sample has weight 0.
bool weighs_nothing(const Dataset& data, const std::vector<double>& weights) {
  const std::vector<std::int64_t> labels = data.labels();
  return !labels.empty() && std::ranges::all_of(labels, [&](std::int64_t label) {
    return label >= 0 && label < std::ssize(weights) &&
           weights[static_cast<std::size_t>(label)] == 0;
  });
}

}  // namespace

ClassWeights read_class_weights(runner::ConfigReader& reader, std::string_view key) {
  const runner::Value* const value = reader.raw(key);
  if (!value) return {};
  if (value->text()) {
    return runner::choice<ClassWeights>(reader, key,
                                        {{"none", {}}, {"balanced", BalancedWeights{}}});
  }
  if (value->list()) {
    std::vector<double> weights;
    reader.read(key, weights);
    return weights;
  }
  if (!value->map()) return {};
  std::map<std::string, double> named;
  runner::ConfigReader& section = reader.section(key);
  for (const runner::Entry& entry : *value->map()) section.read(entry.key, named[entry.key]);
  return named;
}

at::Tensor class_weights_of(const ClassWeights& weights, const Dataset& train) {
  const std::vector<std::string> classes = train.describe().classes;
  if (std::holds_alternative<std::monostate>(weights)) return {};
  std::vector<double> numbers;
  if (const auto* listed = std::get_if<std::vector<double>>(&weights))
    numbers = listed_weights(*listed, classes);
  else if (const auto* named = std::get_if<std::map<std::string, double>>(&weights))
    numbers = named_weights(*named, classes);
  else numbers = balanced_weights(train, classes);
  if (std::ranges::all_of(numbers, [](double number) { return number == 0; }))
    refuse_weights("class_weights are all 0: nothing would be learned",
                   "set a weight above 0 for at least one class");
  if (weighs_nothing(train, numbers)) {
    refuse_weights(
        "class_weights are 0 for every class that has training samples: nothing would be learned",
        "set a weight above 0 for a class that has samples");
  }
  return torch::tensor(numbers, torch::kFloat);
}

void check_weighted_validation(const at::Tensor& weights, const Dataset* validation) {
  if (!weights.defined() || !validation) return;
  const at::Tensor numbers = weights.to(torch::kDouble).contiguous();
  const auto* number = numbers.const_data_ptr<double>();
  if (!weighs_nothing(*validation, {number, number + numbers.numel()})) return;
  refuse_weights(
      "class_weights are 0 for every class that has validation samples: the loss cannot show which "
      "epoch was best",
      "set monitor: accuracy, or add validation samples of other classes");
}

using runner::ErrorCode;
using runner::StageError;

void check_one_class_each(const Dataset& train) {
  if (has_targets(train.describe())) {
    throw StageError(ErrorCode::kOptionConflict,
                     "this training stage needs one class for each sample, but the training data "
                     "has numbers to predict")
        .with_help("train with train.regression");
  }
  if (!has_label_sets(train.describe())) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "this training stage needs one class for each sample, but the training data has "
                   "any number of labels per sample")
      .with_help("train with train.multi_label");
}

void check_same_classes(const Dataset& train, const Dataset* validation) {
  const std::vector<std::string> classes = train.describe().classes;
  if (classes.empty()) {
    throw StageError(ErrorCode::kLabelOutOfRange, "the training data has no classes")
        .with_help(
            "connect labeled data to 'train'; for data.python, list the class names in 'classes'");
  }
  if (!validation) return;
  const std::vector<std::string> validated = validation->describe().classes;
  if (std::ranges::equal(validated, classes, {}, compared_name, compared_name)) return;
  for (const std::string& name : validated) {
    if (place_of_name(name, classes)) continue;
    throw StageError(ErrorCode::kLabelOutOfRange,
                     "the validation data has a class '" + name + "' that the training data lacks")
        .with_help("train and validate on the same classes");
  }
  throw StageError(ErrorCode::kLabelOutOfRange,
                   "the validation data numbers its classes differently from the training data")
      .with_help("use the same classes in the same order for both");
}

}  // namespace stages
