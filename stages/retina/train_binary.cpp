#include "stages/retina/train_binary.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"
#include "stages/artifact/model.h"
#include "stages/tensor/device_constant.h"
#include "stages/text/class_text.h"
#include "stages/train/balanced_samples.h"
#include "stages/train/class_weights.h"
#include "stages/train/classification_loss.h"
#include "stages/train/training_kind.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct BinaryOptions {
  std::array<ClassChoice, 2> classes;
  ClassificationLoss loss;
  ClassWeights class_weights;
  bool balances = false;
  std::int64_t batch_size = 0;  // batch size of an optimizer step
  std::string monitor;
};

/// Returns the single logit of each row, (n).
at::Tensor pair_logits(const NamedTensors& encoded) { return encoded.at("logits").flatten(); }

/// Binary cross-entropy, or a focal loss, on a model's single logit.
class BinaryStep final : public TrainingStep {
 public:
  BinaryStep(const Model& model, const BinaryOptions& options, at::Tensor class_weights)
      : model_(model), options_(options), class_weights_(std::move(class_weights)) {}

  std::vector<LossTerm> terms() const override {
    return {{options_.loss.name(), Coupling::kPerSample}};
  }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  std::string why_mixed() const override { return model_.why_mixed(); }
  bool mixes_over_ranks() const override { return model_.mixes_over_ranks(); }
  void constrain(torch::nn::Module& network) const override { model_.constrain(network); }
  std::optional<std::string> structure() const override {
    return "binary " + structure_of(options_.loss, class_weights_.defined());
  }

  std::string why_not_replayed() const override { return {}; }
  bool weighs_samples() const override { return class_weights_.defined(); }

  std::vector<std::string> notes() const override {
    const bool is_twice =
        options_.balances && std::holds_alternative<BalancedWeights>(options_.class_weights);
    return is_twice ? std::vector{balanced_twice("class_weights: balanced")}
                    : std::vector<std::string>();
  }

  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    return {{options_.loss.name(), pair_loss_sum(pair_logits(encoded), part["label"], options_.loss,
                                                 class_weights_.on(part.device()))}};
  }
  double weight(const Batch& batch) const override {
    const at::Tensor labels = batch["label"];
    if (!class_weights_.defined() || labels.is_meta()) return TrainingStep::weight(batch);
    constexpr double kLeast = 1e-30;  // if all samples of a batch have weight 0, its loss is 0
    const at::Tensor weights = class_weights_.on_host().index_select(0, labels.cpu());
    return std::max(kLeast, weights.to(torch::kDouble).sum().item<double>());
  }
  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    return {{"accuracy", pair_logits(encoded).detach().gt(0).eq(part["label"]).sum()}};
  }
  /// Returns each sample's logit and label, of shape (n, 2).
  at::Tensor kept_in_validation(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor logits = pair_logits(encoded).detach().to(at::kDouble);
    return torch::stack({logits, part["label"].to(logits.device(), at::kDouble)}, 1);
  }
  std::vector<std::pair<std::string, double>> scores_of_all(const at::Tensor& kept) const override {
    const at::Tensor rows = kept.contiguous();
    const auto* numbers = rows.const_data_ptr<double>();
    std::vector<RankedSample> samples;
    for (std::int64_t row = 0; row < rows.size(0); ++row)
      samples.push_back({numbers[2 * row], numbers[2 * row + 1] > 0});
    // In a smoke run, the few samples may all belong to the same class.
    constexpr double kNothingReported = 0.5;
    return {{"auc", ranked_area(samples).value_or(kNothingReported)}};
  }

 private:
  const Model& model_;
  const BinaryOptions options_;
  const DeviceConstant class_weights_;  // (2) float; undefined: all weights are 1
};

ClassChoice read_class(const runner::Value& value) {
  if (const auto* name = value.text()) return *name;
  const auto* number = std::get_if<std::int64_t>(&value.data);
  return number ? *number : std::int64_t{-1};
}

BinaryOptions read_binary_options(runner::ConfigReader& reader) {
  BinaryOptions options;
  if (const runner::Value* classes = reader.raw("classes"); classes && classes->list()) {
    for (std::size_t i = 0; i < std::min<std::size_t>(2, classes->list()->size()); ++i)
      options.classes[i] = read_class((*classes->list())[i]);
  }
  options.loss = read_classification_loss(reader);
  options.class_weights = read_class_weights(reader);
  options.balances =
      runner::choice<bool>(reader, "sampling", {{"as_is", false}, {"balanced", true}});
  std::int64_t accumulated = 1;
  reader.read("batch_size", options.batch_size);
  reader.read("gradient_accumulation_steps", accumulated);
  options.batch_size *= accumulated;
  reader.read("monitor", options.monitor);
  return options;
}

TrainingData draw_pair(const TrainingData& data, const BinaryOptions& options) {
  check_one_class_each(*data.train);
  check_same_classes(*data.train, data.validation.get());
  const std::vector<std::string> classes = data.train->describe().classes;
  const std::array<std::int64_t, 2> pair = {chosen_class(options.classes[0], classes),
                                            chosen_class(options.classes[1], classes)};
  if (pair[0] == pair[1]) {
    throw StageError(ErrorCode::kOptionConflict,
                     "both classes are '" + classes[static_cast<std::size_t>(pair[0])] + "'")
        .at("/classes")
        .with_help("choose two different classes");
  }
  TrainingData drawn = {
      std::make_shared<ClassPair>(data.train, pair, options.batch_size, "training data"), nullptr};
  if (data.validation)
    drawn.validation = std::make_shared<ClassPair>(data.validation, pair, 0, "validation data");
  return drawn;
}

/// Returns the weights of the two classes. Listed weights contain a number for every class in the
/// full dataset.
at::Tensor pair_weights(const ClassWeights& weights, const Dataset& train, const ClassPair& pair) {
  const auto* listed = std::get_if<std::vector<double>>(&weights);
  if (!listed) return class_weights_of(weights, train);
  if (std::ssize(*listed) != pair.pair_of()) {
    throw StageError(ErrorCode::kOptionConflict,
                     "class_weights lists " + std::to_string(listed->size()) + " numbers for " +
                         std::to_string(pair.pair_of()) + " classes")
        .at("/class_weights")
        .with_help("write one number for each class of the data, in the order of their names");
  }
  std::vector<double> of_pair;
  for (const std::int64_t label : pair.pair())
    of_pair.push_back((*listed)[static_cast<std::size_t>(label)]);
  return class_weights_of(of_pair, train);
}

runner::Result<std::unique_ptr<runner::Stage>> create_binary(runner::ConfigReader& reader) {
  const BinaryOptions options = read_binary_options(reader);
  std::optional<double> enough_accuracy;
  reader.read("stop_at_accuracy", enough_accuracy);
  const auto draw = [options](TrainingData data, std::uint64_t seed) {
    data = draw_pair(data, options);
    return options.balances ? draw_balanced(std::move(data), seed) : data;
  };
  const auto make_step = [options](const Model& model, const TrainingData& data,
                                   const MemoryPolicy&) {
    const auto* balanced = dynamic_cast<const BalancedSamples*>(data.train.get());
    const auto& pair = dynamic_cast<const ClassPair&>(balanced ? balanced->source() : *data.train);
    const at::Tensor class_weights = pair_weights(options.class_weights, *data.train, pair);
    if (options.monitor == "loss") check_weighted_validation(class_weights, data.validation.get());
    return std::make_unique<BinaryStep>(model, options, class_weights);
  };
  return make_training_stage(reader, {.draw = draw,
                                      .make_step = make_step,
                                      .scores = {"accuracy", "auc"},
                                      .enough_accuracy = enough_accuracy,
                                      .lets_network_go = true});
}

}  // namespace

extern const runner::StageKind kTrainBinary = {.name = "train.binary", .create = create_binary};

std::optional<double> ranked_area(std::span<RankedSample> samples) {
  std::ranges::sort(samples, {}, &RankedSample::score);
  double first = 0, second = 0, twice_above = 0;
  for (std::size_t i = 0; i < samples.size();) {
    const double score = samples[i].score;
    double firsts = 0, seconds = 0;
    for (; i < samples.size() && samples[i].score == score; ++i)
      ++(samples[i].is_second ? seconds : firsts);
    twice_above += seconds * (2 * first + firsts);
    first += firsts;
    second += seconds;
  }
  if (first == 0 || second == 0) return std::nullopt;
  return twice_above / (2 * first * second);
}

namespace {

[[noreturn]] void refuse_pair(const std::string& message, const std::string& help) {
  throw runner::StageError(runner::ErrorCode::kLabelOutOfRange, message)
      .at("/classes")
      .with_help(help);
}

/// Returns the description `whole`, reduced to two of its classes.
DatasetDescription about_pair(DatasetDescription whole, const std::array<std::int64_t, 2>& pair) {
  whole.pair_of = static_cast<std::int64_t>(whole.classes.size());
  for (std::vector<std::string>* names : {&whole.classes, &whole.class_words}) {
    if (names->empty()) continue;
    *names = {(*names)[static_cast<std::size_t>(pair[0])],
              (*names)[static_cast<std::size_t>(pair[1])]};
  }
  return whole;
}

}  // namespace

std::int64_t chosen_class(const ClassChoice& choice, const std::vector<std::string>& classes) {
  if (const auto* number = std::get_if<std::int64_t>(&choice)) {
    if (*number >= 0 && *number < std::ssize(classes)) return *number;
    refuse_pair(
        "there is no class " + std::to_string(*number) + "; the number of classes is " +
            std::to_string(classes.size()),
        "number them from 0 to " + std::to_string(classes.size() - 1) + ", or use their names");
  }
  const std::string& name = std::get<std::string>(choice);
  const auto place = place_of_name(name, classes);
  if (!place)
    refuse_pair("the data has no class '" + name + "'", runner::did_you_mean(name, classes));
  return static_cast<std::int64_t>(*place);
}

ClassPair::ClassPair(std::shared_ptr<const Dataset> source, std::array<std::int64_t, 2> pair,
                     std::int64_t batch_size, const std::string& part)
    : source_(std::move(source)), pair_(pair), batch_size_(batch_size) {
  const DatasetDescription whole = source_->describe();
  pair_of_ = static_cast<std::int64_t>(whole.classes.size());
  const std::vector<std::int64_t> labels = source_->labels();
  if (std::ssize(labels) != whole.size)
    refuse_pair(
        "a class pair needs the class of each sample, but the data does not list classes in "
        "advance",
        "connect labeled images to this stage");
  for (std::int64_t index = 0; index < whole.size; ++index) {
    const auto found = std::ranges::find(pair_, labels[static_cast<std::size_t>(index)]);
    if (found == pair_.end()) continue;
    indices_.push_back(index);
    labels_.push_back(found - pair_.begin());
  }
  for (std::int64_t label = 0; label < 2; ++label) {
    if (std::ranges::find(labels_, label) != labels_.end()) continue;
    const auto number = static_cast<std::size_t>(pair_[static_cast<std::size_t>(label)]);
    refuse_pair("the " + part + " has no samples of class '" + whole.classes[number] + "'",
                "add samples of that class to every part of the data, or leave out its pairs");
  }
}

DatasetDescription ClassPair::describe() const {
  DatasetDescription whole = source_->describe();
  whole.size = std::ssize(indices_);
  if (whole.source)
    whole.source = std::make_shared<DatasetDescription>(about_pair(*whole.source, pair_));
  return about_pair(std::move(whole), pair_);
}

std::optional<NamedTensors> ClassPair::sample(std::int64_t epoch, std::int64_t index) const {
  auto sample = source_->sample(epoch, source_index(index));
  if (sample) sample->set("label", torch::tensor(labels_[static_cast<std::size_t>(index)]));
  return sample;
}

bool ClassPair::needs_every_sample() const {
  const auto* remarking = dynamic_cast<const RemarkingDataset*>(source_.get());
  return remarking && remarking->needs_every_sample();
}

std::vector<RemarkingDataset::Remarks> ClassPair::take_remarks(
    std::span<const std::int64_t> indices) const {
  const auto* remarking = dynamic_cast<const RemarkingDataset*>(source_.get());
  if (!remarking) return {};
  std::vector<std::int64_t> of_source;
  for (const std::int64_t index : indices) of_source.push_back(source_index(index));
  return remarking->take_remarks(of_source);
}

LoaderOptions ClassPair::loader() const {
  LoaderOptions options = source_->loader();
  if (std::ssize(indices_) < batch_size_) options.drop_last = false;
  return options;
}

}  // namespace stages
