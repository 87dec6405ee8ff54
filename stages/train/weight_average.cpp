#include "stages/train/weight_average.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/config_reader.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

/// The key for the number of averaged epochs in a checkpoint.
constexpr const char* kEpochs = "epochs.averaged";

/// Returns the suffix that marks those weights in a checkpoint that are not the result of training.
const char* other_ending(const WeightAverageOptions& options) {
  return options.is_result ? ".trained" : ".average";
}

}  // namespace

std::optional<WeightAverageOptions> read_weight_average(runner::ConfigReader& reader) {
  const runner::Value* const value = reader.raw("ema");
  if (!value || value->is_null()) return std::nullopt;
  runner::ConfigReader& ema = reader.section("ema");
  WeightAverageOptions options;
  ema.read("decay", options.decay);
  ema.read("warmup", options.warmup);
  options.is_result = runner::choice<bool>(ema, "result", {{"average", true}, {"trained", false}});
  return options;
}

WeightAverage::WeightAverage(const torch::nn::Module& network, WeightAverageOptions options,
                             const std::function<bool(const at::Tensor& weight)>& is_elsewhere)
    : options_(options) {
  const NamedTensors trained = trained_parameters(network);
  const auto buffers = network.named_buffers();
  const auto add = [&](const std::string& name, const at::Tensor& weight) {
    names_.push_back(name);
    weights_.push_back(weight);
    if (is_elsewhere && is_elsewhere(weight)) {
      averages_.push_back(torch::empty_like(weight.detach()));
      free_memory(averages_.back());
    } else {
      averages_.push_back(weight.detach().clone());
    }
  };
  const NamedTensors all = weights(network);
  for (const auto& [name, weight] : all)
    if (weight.is_floating_point() && trained.contains(name)) add(name, weight);
  trained_ = weights_.size();
  for (const auto& [name, weight] : all)
    if (weight.is_floating_point() && !trained.contains(name) && buffers.contains(name))
      add(name, weight);
}

namespace {

/// Returns the first `count` of `all` for which this rank has the average.
std::vector<at::Tensor> averaged_here(const std::vector<at::Tensor>& all,
                                      const std::vector<at::Tensor>& averages, std::size_t count) {
  std::vector<at::Tensor> here;
  for (std::size_t i = 0; i < count; ++i) {
    if (has_memory(averages[i])) here.push_back(all[i]);
  }
  return here;
}

}  // namespace

void WeightAverage::include(std::int64_t epoch) {
  if (epoch <= epochs_) return;
  const torch::NoGradGuard no_graph;
  const auto one_of = 1 / static_cast<double>(epoch);
  const std::vector<at::Tensor> averages = averaged_here(averages_, averages_, trained_);
  if (!averages.empty())
    at::_foreach_lerp_(averages, averaged_here(weights_, averages_, trained_), one_of);
  for (std::size_t i = trained_; i < weights_.size(); ++i) averages_[i].copy_(weights_[i]);
  epochs_ = epoch;
}

void WeightAverage::update(std::int64_t step) {
  if (options_.is_equal) return;
  const torch::NoGradGuard no_graph;
  const auto n = static_cast<double>(step);
  const double decay =
      options_.warmup ? std::min(options_.decay, (1 + n) / (10 + n)) : options_.decay;
  const std::size_t all = weights_.size();
  const std::vector<at::Tensor> averages = averaged_here(averages_, averages_, all);
  if (!averages.empty())
    at::_foreach_lerp_(averages, averaged_here(weights_, averages_, all), 1 - decay);
}

void WeightAverage::swap() {
  const torch::NoGradGuard no_graph;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor weight = weights_[i].detach();
    weights_[i].set_data(averages_[i]);
    averages_[i] = weight;
  }
}

NamedTensors WeightAverage::state() const {
  std::vector<NamedTensors::Item> items;
  for (std::size_t i = 0; i < names_.size(); ++i)
    items.emplace_back(names_[i] + ".average", averages_[i]);
  return NamedTensors(std::move(items));
}

void WeightAverage::save(NamedTensors& model, NamedTensors& rest) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    rest.set(names_[i] + other_ending(options_), options_.is_result ? weights_[i] : averages_[i]);
    if (is_result()) model.set(names_[i], averages_[i]);
  }
  if (options_.is_equal) rest.set(kEpochs, torch::tensor(epochs_, torch::kLong));
}

void WeightAverage::load(NamedTensors& model, NamedTensors& rest) {
  const torch::NoGradGuard no_graph;
  std::vector<NamedTensors::Item> others(rest.begin(), rest.end());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string other = names_[i] + other_ending(options_);
    if (!model.contains(names_[i]) || !rest.contains(other))
      throw std::invalid_argument("the average of '" + names_[i] + "' is missing");
    if (has_memory(averages_[i]))
      averages_[i].copy_(options_.is_result ? model.at(names_[i]) : rest.at(other));
    if (options_.is_result) model.set(names_[i], rest.at(other));
    std::erase_if(others, [&](const auto& item) { return item.first == other; });
  }
  if (options_.is_equal) {
    if (!rest.contains(kEpochs)) throw std::invalid_argument("it has no average over epochs");
    epochs_ = rest.at(kEpochs).item<std::int64_t>();
    std::erase_if(others, [](const auto& item) { return item.first == kEpochs; });
  }
  rest = NamedTensors(std::move(others));
}

void take_other_weights(const WeightAverageOptions& options, NamedTensors& model,
                        const NamedTensors& rest) {
  const std::string_view ending = other_ending(options);
  bool has_any = false;
  for (const auto& [name, tensor] : rest) {
    if (!name.ends_with(ending)) continue;
    const std::string weight = name.substr(0, name.size() - ending.size());
    if (!model.contains(weight)) continue;
    model.set(weight, tensor);
    has_any = true;
  }
  if (!has_any) throw std::invalid_argument("it contains only one kind of weights");
}

ScopedAverage::ScopedAverage(WeightAverage* average)
    : average_(average && average->is_result() ? average : nullptr) {
  if (average_) average_->swap();
}

ScopedAverage::~ScopedAverage() {
  if (average_) average_->swap();
}

}  // namespace stages
