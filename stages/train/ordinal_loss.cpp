#include "stages/train/ordinal_loss.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kNamedOrdered = 10;

[[noreturn]] void refuse_order(const std::string& message, const std::string& help) {
  throw StageError(ErrorCode::kOptionConflict, message).at("/loss/order").with_help(help);
}

std::string named_classes(const std::vector<std::string>& classes) {
  return runner::listed(classes, kNamedOrdered, "'");
}

/// Returns the whole number that a name consists of, or begins with before a space or punctuation.
std::optional<std::int64_t> leading_number(const std::string& name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  const bool is_apart = end == name.data() + name.size() ||
                        (std::isalnum(static_cast<unsigned char>(*end)) == 0 && *end != '.');
  return is_apart ? std::optional(number) : std::nullopt;
}

/// Throws unless the names begin with numbers that increase by 1.
void check_numbered(const std::vector<std::string>& classes) {
  const std::string list_them =
      "list the classes from the lowest to the highest in loss.order, such as [none, mild, severe]";
  std::vector<std::int64_t> numbers;
  for (const std::string& name : classes) {
    const auto number = leading_number(name);
    if (!number)
      refuse_order("the class '" + name +
                       "' does not begin with a number, so the order of the classes is unknown",
                   list_them);
    numbers.push_back(*number);
  }
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const std::int64_t step = numbers[i] - numbers[i - 1];
    if (step == 1) continue;
    const std::string both = "'" + classes[i - 1] + "' and '" + classes[i] + "'";
    if (step <= 0)
      refuse_order(
          "the classes are not numbered in ascending order: " + both + " follow one another",
          "begin their names with numbers of equal length, such as 01, 02, …, 10");
    refuse_order("there is no class between " + both + ", but their numbers leave room for one",
                 "add samples of the missing class; or, if no class is missing, " + list_them);
  }
}

void check_listed(const std::vector<std::string>& order, const std::vector<std::string>& classes) {
  for (const std::string& name : order) {
    if (!place_of_name(name, classes))
      refuse_order("loss.order names a class that the training data lacks: '" + name + "'",
                   runner::did_you_mean(name, classes));
  }
  for (const std::string& name : classes) {
    if (!place_of_name(name, order))
      refuse_order("loss.order lacks the class '" + name + "'",
                   "list every class of the training data: " + named_classes(classes));
  }
  if (order.size() != classes.size())
    refuse_order("loss.order names a class twice",
                 "list each class once: " + named_classes(classes));
  if (std::ranges::equal(order, classes, {}, compared_name, compared_name)) return;
  refuse_order("the data numbers its classes in a different order from loss.order: " +
                   named_classes(classes),
               "class folders and names in tables are sorted: begin them with numbers, such as "
               "0_none, 1_mild, 2_severe; data.python numbers them in the order of its `classes`");
}

void check_importance(const std::vector<double>& weights, std::size_t classes) {
  if (weights.empty()) return;
  const auto refuse = [](const std::string& message, const std::string& help) {
    throw StageError(ErrorCode::kOptionConflict, message)
        .at("/loss/importance_weights")
        .with_help(help);
  };
  if (weights.size() + 1 != classes)
    refuse("importance_weights has " + std::to_string(weights.size()) + " numbers, but CORAL has " +
               std::to_string(classes - 1) + " outputs for " + std::to_string(classes) + " classes",
           "write one number for each step from a class to the next");
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
    refuse("importance_weights are all 0: nothing would be learned",
           "set at least one of them above 0");
}

}  // namespace

OrdinalLoss read_coral(runner::ConfigReader& reader) {
  OrdinalLoss loss{.head = OrdinalHead::kCoral};
  std::optional<std::vector<double>> weights;
  reader.read("importance_weights", weights);
  loss.importance_weights = weights.value_or(std::vector<double>());
  reader.read("order", loss.order);
  return loss;
}

OrdinalLoss read_corn(runner::ConfigReader& reader) {
  OrdinalLoss loss{.head = OrdinalHead::kCorn};
  reader.read("order", loss.order);
  return loss;
}

void check_order(const OrdinalLoss& loss, const DatasetDescription& train) {
  const std::vector<std::string>& classes = train.classes;
  constexpr std::size_t kFewest = 2;
  if (classes.size() < kFewest) {
    throw StageError(ErrorCode::kOptionConflict,
                     "an ordinal loss needs two or more classes, but the training data has only "
                     "one")
        .at("/loss")
        .with_help("add a second class to the data, or set loss: {kind: cross_entropy}");
  }
  if (loss.order) check_listed(*loss.order, classes);
  else if (!train.has_order) check_numbered(classes);
  check_importance(loss.importance_weights, classes.size());
}

at::Tensor importance_weights_of(const OrdinalLoss& loss) {
  return loss.importance_weights.empty() ? at::Tensor()
                                         : torch::tensor(loss.importance_weights, at::kDouble);
}

at::Tensor ordinal_loss_sum(const at::Tensor& outputs, const at::Tensor& labels, OrdinalHead head,
                            const at::Tensor& importance) {
  const at::Tensor exact = outputs.to(at::promote_types(outputs.scalar_type(), at::kFloat));
  const auto options = exact.options().requires_grad(false);
  const at::Tensor rank = torch::arange(exact.size(1), labels.options());
  const at::Tensor label = labels.unsqueeze(1), above = label.gt(rank).to(options.dtype());
  std::optional<at::Tensor> weights;
  if (head == OrdinalHead::kCorn) weights = label.ge(rank).to(options.dtype());
  else if (importance.defined()) weights = importance.to(options);
  return at::binary_cross_entropy_with_logits(exact, above, weights, /*pos_weight=*/{},
                                              at::Reduction::Sum);
}

double ordinal_weight(const at::Tensor& labels, std::int64_t classes, OrdinalHead head) {
  if (head != OrdinalHead::kCorn) return static_cast<double>(labels.size(0));
  return labels.add(1).clamp_max(classes - 1).sum().to(at::kDouble).item<double>();
}

}  // namespace stages
