#include "stages/random/dropout.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/random/apply_dropout.h"
#include "stages/random/random.h"
#include "stages/tensor/batch.h"

namespace stages {
namespace {

constexpr std::int64_t kMostElements = std::numeric_limits<std::uint32_t>::max();

/// apply_dropout() with a backward pass, which applies the same mask to the gradient.
class Drop : public torch::autograd::Function<Drop> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& samples, const DropoutMask& mask) {
    context->save_for_backward({samples});
    context->saved_data["seed"] = static_cast<std::int64_t>(mask.seed);
    context->saved_data["step"] = static_cast<std::int64_t>(mask.step);
    context->saved_data["layer"] = static_cast<std::int64_t>(mask.layer);
    context->saved_data["probability"] = mask.probability;
    context->saved_data["each"] = mask.unit == DropoutUnit::kElement;
    return apply_dropout(mask, x, samples);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& saved = context->saved_data;
    const DropoutMask mask{
        .seed = static_cast<std::uint64_t>(saved.at("seed").toInt()),
        .step = static_cast<std::uint32_t>(saved.at("step").toInt()),
        .layer = static_cast<std::uint32_t>(saved.at("layer").toInt()),
        .probability = saved.at("probability").toDouble(),
        .unit = saved.at("each").toBool() ? DropoutUnit::kElement : DropoutUnit::kSample};
    return {Drop::apply(gradients[0], context->get_saved_variables()[0], mask), {}, {}};
  }
};

/// Returns the dropout layers of a network, in the order of its modules.
std::vector<Dropout*> dropout_layers(torch::nn::Module& network) {
  std::vector<Dropout*> layers;
  network.apply([&layers](torch::nn::Module& module) {
    if (auto* layer = dynamic_cast<Dropout*>(&module)) layers.push_back(layer);
  });
  return layers;
}

at::Device device_of(const torch::nn::Module& network) {
  const std::vector<at::Tensor> parameters = network.parameters();
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

at::Tensor numbers(const std::vector<std::int64_t>& samples, at::Device device) {
  for (const std::int64_t sample : samples) {
    if (sample < 0 || sample > kMostElements)
      throw std::invalid_argument("dropout: sample " + std::to_string(sample) +
                                  " does not fit into 32 bits");
  }
  return send_to(device, torch::tensor(samples, torch::kLong));
}

std::uint64_t digest_of(const std::vector<std::int64_t>& samples) {
  std::uint64_t digest = 0;
  for (const std::int64_t sample : samples)
    digest = Random({digest, static_cast<std::uint64_t>(sample)}).next();
  return digest;
}

/// Returns the seed for the masks of an input. For the name "", this is the step's seed.
std::uint64_t seed_of_input(std::uint64_t seed, std::string_view name) {
  for (const char letter : name) seed = Random({seed, static_cast<unsigned char>(letter)}).next();
  return seed;
}

}  // namespace

Dropout::Dropout(double probability, DropoutUnit unit) : probability_(probability), unit_(unit) {
  if (!(probability >= 0 && probability <= 1))
    throw std::invalid_argument("dropout: the probability is not in [0, 1]");
}

std::int64_t Dropout::rows() const {
  return names_ && names_->samples.defined() ? names_->samples.size(0) : 0;
}

std::optional<std::uint64_t> Dropout::drawing_seed() const {
  if (!names_ || !names_->samples.defined()) return {};
  return Random({names_->seed, static_cast<std::uint64_t>(names_->scope->key.step), names_->layer,
                 names_->digest})
      .next();
}

/// Returns the mask of this layer. Throws if no scope sets the step and the samples, or the input
/// that the rows belong to.
DropoutMask Dropout::mask(double probability, DropoutUnit unit) const {
  if (!names_) throw std::logic_error("dropout: no ScopedDropout sets the step and the samples");
  if (!names_->samples.defined())
    throw std::logic_error("dropout: no ScopedInput sets the input of these rows");
  return {.seed = names_->seed,
          .step = static_cast<std::uint32_t>(names_->scope->key.step),
          .layer = names_->layer,
          .probability = probability,
          .unit = unit};
}

at::Tensor Dropout::forward(const at::Tensor& x, std::optional<double> probability) const {
  if (!is_active()) return x;
  const DropoutMask drawn = mask(probability.value_or(probability_), unit_);
  return Drop::apply(x, names_->samples, drawn);
}

at::Tensor Dropout::factor_of_all(const at::TensorOptions& options) const {
  const at::Tensor one = torch::ones({1, 1}, options);
  if (!is_active()) return one.squeeze();
  const DropoutMask drawn = mask(probability_, DropoutUnit::kSample);
  const at::Tensor first_sample = torch::zeros({1}, options.dtype(torch::kLong));
  return Drop::apply(one, first_sample, drawn).squeeze();
}

Dropout::Saved Dropout::names_of(torch::nn::Module& module) {
  Saved names;
  for (Dropout* layer : dropout_layers(module)) names.emplace_back(layer, layer->names_);
  return names;
}

void Dropout::restore(Saved& saved) {
  // Restores in reverse order, so that a layer that occurs twice in the network gets its original
  // state back.
  for (auto entry = saved.rbegin(); entry != saved.rend(); ++entry)
    entry->first->names_ = std::move(entry->second);
}

ScopedDropout::ScopedDropout(torch::nn::Module& network, const StepKey& key, const RowNames& rows) {
  Dropout::Saved before = Dropout::names_of(network);
  // Layers that never drop anything need no row names.
  if (std::ranges::none_of(before, [](const auto& entry) { return entry.first->probability_ > 0; }))
    return;
  if (key.step < 0 || key.step > kMostElements)
    throw std::invalid_argument("dropout: step " + std::to_string(key.step) +
                                " does not fit into 32 bits");
  auto scope = std::make_shared<Dropout::Scope>();
  scope->key = key;
  for (const auto& [input, names] : rows) {
    scope->rows.emplace(input, numbers(names, device_of(network)));
    scope->digests.emplace(input, digest_of(names));
  }
  const auto all = scope->rows.find("");
  const bool names_all = all != scope->rows.end();
  const at::Tensor samples = names_all ? all->second : at::Tensor();
  const std::uint64_t digest = names_all ? scope->digests.at("") : 0;
  before_ = std::move(before);
  for (std::uint32_t number = 0; const auto& entry : before_)
    entry.first->names_ = Dropout::Names{scope, number++, key.seed, digest, samples};
}

ScopedDropout::ScopedDropout(torch::nn::Module& network, const StepKey& key,
                             const std::vector<std::int64_t>& samples)
    : ScopedDropout(network, key, RowNames{{"", samples}}) {}

ScopedDropout::ScopedDropout(const DropoutNames& names) {
  for (const auto& entry : names.names_) before_.emplace_back(entry.first, entry.first->names_);
  for (const auto& [layer, own] : names.names_) layer->names_ = own;
}

ScopedDropout::~ScopedDropout() { Dropout::restore(before_); }

ScopedInput::ScopedInput(torch::nn::Module& network, std::string_view name) {
  Dropout::Saved before = Dropout::names_of(network);
  for (const auto& [layer, names] : before) {
    if (names && !names->scope->rows.contains(name) && !names->scope->rows.contains(""))
      throw std::logic_error("dropout: the rows of the input '" + std::string(name) +
                             "' have no names");
  }
  before_ = std::move(before);
  for (const auto& [layer, names] : before_) {
    if (!names) continue;
    const auto& rows = names->scope->rows;
    const auto own = rows.find(name);
    layer->names_->samples = own == rows.end() ? rows.find("")->second : own->second;
    layer->names_->digest = names->scope->digests.at(own == rows.end() ? "" : std::string(name));
    layer->names_->seed = seed_of_input(names->scope->key.seed, name);
  }
}

ScopedInput::~ScopedInput() { Dropout::restore(before_); }

}  // namespace stages
