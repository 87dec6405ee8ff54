#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/value.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/python/python_step.h"
#include "stages/tensor/shape_text.h"
#include "stages/train/balanced_samples.h"
#include "stages/train/calibration.h"
#include "stages/train/class_weights.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct PythonTrainingOptions {
  std::string entry;  ///< "my_step.py:Step"
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  Coupling coupling = Coupling::kPerSample;
  std::int64_t samples_in_group = 0;  ///< 0: the loss is not computed over groups
  std::string monitor;
  bool balances = false;
  DecisionFit calibration;
};

/// A loss written in Python. The recipe declares how the loss couples samples. The plan relies on
/// this declaration, and a certificate verifies it.
class PythonTrainingStep final : public TrainingStep {
 public:
  PythonTrainingStep(const Model& model, const PythonTrainingOptions& options, std::int64_t classes)
      : model_(model),
        options_(options),
        classes_(classes),
        python_(options.entry, options.arguments) {
    if (options_.monitor != "loss" && !python_.scores()) {
      throw StageError(ErrorCode::kOptionConflict, "monitor is '" + options_.monitor + "', but " +
                                                       options_.entry + " has no method score")
          .at("/monitor")
          .with_help("set monitor: loss, or return that score from score(self, encoded, batch)");
    }
  }

  std::vector<LossTerm> terms() const override {
    return {{.name = "loss",
             .coupling = options_.coupling,
             .samples_in_group = options_.samples_in_group}};
  }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  std::string why_mixed() const override { return model_.why_mixed(); }
  bool mixes_over_ranks() const override { return model_.mixes_over_ranks(); }
  bool declares_couplings() const override { return true; }
  bool reads_whole_batch() const override { return options_.coupling == Coupling::kWholeBatch; }

  /// If labels are classes, a label outside their range is rejected: on a GPU, a loss that indexes
  /// logits with such a label would crash the process.
  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    if (classes_ == 0 || !batch.tensors().contains("label")) return {};
    const at::Tensor labels = batch["label"].contiguous();
    if (labels.scalar_type() != at::kLong || labels.dim() != 1) return {};
    const auto* const label = labels.const_data_ptr<std::int64_t>();
    for (std::int64_t unit = 0; unit < batch.units(); ++unit) {
      if (label[unit] >= 0 && label[unit] < classes_) continue;
      return BadUnit{unit, ErrorCode::kLabelOutOfRange,
                     "label " + std::to_string(label[unit]) + " is outside the data's " +
                         std::to_string(classes_) + " classes"};
    }
    return {};
  }

  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    if (!python_.encodes()) return model_.forward(network, part.tensors());
    return in_entry([&] {
      NamedTensors encoded = python_.encode(network, part, [&](const NamedTensors& inputs) {
        return model_.forward(network, inputs);
      });
      check_encoded(encoded, network);
      return encoded;
    });
  }

  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    return in_entry([&]() -> NamedTensors {
      const at::Tensor values = python_.loss(encoded, part);
      check_loss(values, encoded, part);
      // Sums of half-precision numbers could overflow.
      const bool is_half = values.element_size() < 4;
      const at::Tensor full = is_half ? values.to(at::kFloat) : values;
      switch (options_.coupling) {
        case Coupling::kPerSample:
          return {{"loss", full.sum()}};
        case Coupling::kPerGroup:
          return {{"loss", full.dot(samples_of_groups(part.units(), full.options()))}};
        case Coupling::kWholeBatch:
          break;
      }
      return {{"loss", full * static_cast<double>(part.units())}};
    });
  }

  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    if (!python_.scores()) return {};
    const torch::NoGradGuard no_graph;
    return in_entry([&] {
      NamedTensors sums;
      for (const auto& [name, values] : python_.score(encoded, part)) {
        check_score(name, values, part);
        sums.set(name, values.sum(at::kDouble));
      }
      check_score_names(sums);
      return sums;
    });
  }

  /// Returns the logits and the label of each sample, as float32 of shape (n, classes + 1).
  at::Tensor kept_in_validation(const NamedTensors& encoded, const Batch& part) const override {
    if (!options_.calibration.fits_anything()) return {};
    check_logits(encoded, part);
    return calibration_rows(encoded.at("logits"), part["label"]);
  }
  std::int64_t bytes_kept_in_validation() const override {
    return calibration_bytes(options_.calibration, classes_);
  }
  std::vector<std::pair<std::string, double>> saved_of_all(const at::Tensor& kept) const override {
    return named_numbers(fitted_decision(kept, options_.calibration));
  }

 private:
  template <typename Call>
  static NamedTensors in_entry(const Call& call) {
    try {
      return call();
    } catch (StageError& error) {
      if (!error.option.empty()) throw;
      throw std::move(error).at("/entry");
    }
  }

  std::int64_t groups(std::int64_t units) const {
    return (units + options_.samples_in_group - 1) / options_.samples_in_group;
  }

  /// Returns the size of each group. The last group may be smaller.
  at::Tensor samples_of_groups(std::int64_t units, const at::TensorOptions& options) const {
    at::Tensor samples = torch::full({groups(units)}, options_.samples_in_group, options);
    samples[-1].fill_(units - (groups(units) - 1) * options_.samples_in_group);
    return samples;
  }

  void check_encoded(const NamedTensors& encoded, const torch::nn::Module& network) const {
    const auto learns = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
    const auto has_gradient = [&](const auto& item) { return learns(item.second); };
    if (!torch::GradMode::is_enabled() || std::ranges::any_of(encoded, has_gradient) ||
        std::ranges::none_of(network.parameters(), learns))
      return;
    throw StageError(ErrorCode::kStageFailed,
                     python_.named("encode") + " returned no tensor that has a gradient")
        .with_help("return what the network computes, without .detach() or torch.no_grad()");
  }

  void check_loss(const at::Tensor& values, const NamedTensors& encoded, const Batch& part) const {
    const auto refuse = [&](const std::string& why, const std::string& help) {
      throw StageError(ErrorCode::kStageFailed, python_.named("loss") + " " + why).with_help(help);
    };
    if (!values.is_floating_point()) {
      refuse(std::string("returned numbers of type ") + c10::toString(values.scalar_type()),
             "return floating-point numbers");
    }
    const std::string shape = "returned a tensor of shape " + shape_text(values);
    switch (options_.coupling) {
      case Coupling::kPerSample:
        if (values.dim() == 1 && values.size(0) == part.units()) break;
        refuse(shape + " for " + std::to_string(part.units()) +
                   " samples, but with coupling: per_sample it must return one number per sample",
               "use reduction='none' and reduce the other dimensions, for example with .mean(1), "
               "or set coupling: whole_batch if a sample's loss depends on others");
        break;
      case Coupling::kPerGroup:
        if (values.dim() == 1 && values.size(0) == groups(part.units())) break;
        refuse(shape + " for " + std::to_string(part.units()) + " samples in groups of " +
                   std::to_string(options_.samples_in_group) +
                   ", but with coupling: per_group it must return one number per group",
               "return the mean of each group of consecutive samples; the last may be smaller");
        break;
      case Coupling::kWholeBatch:
        if (values.dim() == 0) break;
        refuse(shape + ", but with coupling: whole_batch it must return one number for the batch",
               "return the mean over the batch, or set coupling: per_sample and return one number "
               "per sample");
        break;
    }
    const auto requires_gradient = [](const auto& item) { return item.second.requires_grad(); };
    if (torch::GradMode::is_enabled() && !values.requires_grad() &&
        std::ranges::any_of(encoded, requires_gradient)) {
      refuse("returned a tensor that has no gradient: it does not depend on `encoded`",
             "compute it from `encoded`, without .detach(), .item() or torch.no_grad()");
    }
    // Only a certificate computes in float64.
    const auto is_double = [](const auto& item) {
      return item.second.scalar_type() == at::kDouble;
    };
    if (values.scalar_type() != at::kDouble && std::ranges::any_of(encoded, is_double)) {
      refuse(std::string("computes in ") + c10::toString(values.scalar_type()) +
                 " although its input is float64, so nothing can be compared exactly",
             "convert to the type of the encoded tensors: label.to(logits.dtype) instead of "
             "logits.float()");
    }
  }

  void check_logits(const NamedTensors& encoded, const Batch& part) const {
    const bool has_logits = part.tensors().contains("label") && encoded.contains("logits") &&
                            encoded.at("logits").dim() == 2 &&
                            encoded.at("logits").size(0) == part.units() &&
                            encoded.at("logits").size(1) == classes_;
    if (has_logits) return;
    throw StageError(ErrorCode::kOptionConflict,
                     "calibration needs an output 'logits' with " + std::to_string(classes_) +
                         " numbers for each sample, one for each class, which the network does not "
                         "return")
        .at("/calibration")
        .with_help("return it from the network or from encode, or remove the calibration");
  }

  void check_score(const std::string& name, const at::Tensor& values, const Batch& part) const {
    const auto refuse = [&](const std::string& why, const std::string& help) {
      throw StageError(ErrorCode::kStageFailed, python_.named("score") + " " + why).with_help(help);
    };
    constexpr std::size_t kLongest = 100;
    const auto is_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    constexpr std::array<std::string_view, 4> kTaken = {"loss", "learning_rate", "gradient_norm",
                                                        "loss_scale"};
    if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, is_of_name) ||
        name.starts_with("epoch_") || std::ranges::find(kTaken, name) != kTaken.end()) {
      refuse("returned a score named '" + name.substr(0, kLongest) +
                 "', which cannot be recorded as train/" + name.substr(0, kLongest),
             "use only letters, digits and '_' in names; loss, learning_rate, gradient_norm, "
             "loss_scale and epoch_... are already recorded");
    }
    if (values.dim() == 1 && values.size(0) == part.units() && !values.is_complex()) return;
    refuse("returned a tensor of shape " + shape_text(values) + " as '" + name + "' for " +
               std::to_string(part.units()) + " samples, not one number per sample",
           "return one number per sample, such as (logits.argmax(1) == label)");
  }

  /// Checks that all parts and batches have the same score names, since scores are added by name.
  void check_score_names(const NamedTensors& sums) const {
    std::vector<std::string> names;
    for (const auto& [name, sum] : sums) names.push_back(name);
    const auto listed = [](const std::vector<std::string>& all) {
      return all.empty() ? "nothing" : runner::listed(all, all.size(), "'");
    };
    if (!score_names_) {
      if (options_.monitor != "loss" && std::ranges::find(names, options_.monitor) == names.end()) {
        throw StageError(ErrorCode::kOptionConflict, "monitor is '" + options_.monitor + "', but " +
                                                         python_.named("score") + " returned " +
                                                         listed(names))
            .at("/monitor")
            .with_help("set monitor to one of these, or to loss");
      }
      score_names_ = names;
    }
    if (names == *score_names_) return;
    throw StageError(ErrorCode::kStageFailed, python_.named("score") + " returned " +
                                                  listed(names) + " after " + listed(*score_names_))
        .with_help("return the same names in the same order for every batch");
  }

  const Model& model_;
  const PythonTrainingOptions options_;
  const std::int64_t classes_;  // 0: none
  const PythonStep python_;
  mutable std::optional<std::vector<std::string>>
      score_names_;  // nullopt until score() has returned
};

std::unique_ptr<TrainingStep> make_python_step(const PythonTrainingOptions& options,
                                               const Model& model, const TrainingData& data) {
  const std::size_t classes = data.train->describe().classes.size();
  if (classes > 0 || options.calibration.fits_anything())
    check_same_classes(*data.train, data.validation.get());
  if (options.calibration.fits_anything()) check_one_class_each(*data.train);
  check_calibration(options.calibration, static_cast<std::int64_t>(classes), data.validation.get());
  try {
    return std::make_unique<PythonTrainingStep>(model, options, classes);
  } catch (StageError& error) {
    if (!error.option.empty()) throw;
    throw std::move(error).at("/entry");
  }
}

PythonTrainingOptions read_python_training_options(runner::ConfigReader& reader) {
  PythonTrainingOptions options;
  reader.read("entry", options.entry);
  if (const runner::Value* const arguments = reader.raw("arguments"))
    options.arguments = nlohmann::ordered_json(runner::to_json(*arguments, /*hide_secrets=*/false));
  options.coupling = runner::choice<Coupling>(reader, "coupling",
                                              {{"per_sample", Coupling::kPerSample},
                                               {"per_group", Coupling::kPerGroup},
                                               {"whole_batch", Coupling::kWholeBatch}});
  std::optional<std::int64_t> samples_in_group;
  reader.read("samples_in_group", samples_in_group);
  if (options.coupling == Coupling::kPerGroup)
    options.samples_in_group = samples_in_group.value_or(1);
  options.balances =
      runner::choice<bool>(reader, "sampling", {{"as_is", false}, {"balanced", true}});
  reader.read("monitor", options.monitor);
  options.calibration = read_calibration(reader);
  return options;
}

runner::Result<std::unique_ptr<runner::Stage>> create_python_training(
    runner::ConfigReader& reader) {
  const PythonTrainingOptions options = read_python_training_options(reader);
  enum class Better { kAuto, kHigher, kLower };
  const auto better = runner::choice<Better>(
      reader, "better",
      {{"auto", Better::kAuto}, {"higher", Better::kHigher}, {"lower", Better::kLower}});
  TrainingKind kind{
      .make_step = [options](
                       const Model& model, const TrainingData& data,
                       const MemoryPolicy&) { return make_python_step(options, model, data); },
      .higher_is_better =
          better == Better::kAuto ? options.monitor != "loss" : better == Better::kHigher};
  if (options.balances) kind.draw = draw_balanced;
  return make_training_stage(reader, std::move(kind));
}

}  // namespace

extern const runner::StageKind kTrainPython = {.name = "train.python",
                                               .create = create_python_training};

}  // namespace stages
