#include "stages/random/dropout.h"

#include <algorithm>
#include <limits>
#include <set>
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
                            const at::Tensor& step, const at::Tensor& samples,
                            const DropoutMask& mask) {
    context->save_for_backward({step, samples});
    context->saved_data["seed"] = static_cast<std::int64_t>(mask.seed);
    context->saved_data["layer"] = static_cast<std::int64_t>(mask.layer);
    context->saved_data["probability"] = mask.probability;
    context->saved_data["each"] = mask.unit == DropoutUnit::kElement;
    return apply_dropout(mask, x, {step, samples});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& saved = context->saved_data;
    const DropoutMask mask{
        .seed = static_cast<std::uint64_t>(saved.at("seed").toInt()),
        .layer = static_cast<std::uint32_t>(saved.at("layer").toInt()),
        .probability = saved.at("probability").toDouble(),
        .unit = saved.at("each").toBool() ? DropoutUnit::kElement : DropoutUnit::kSample};
    const torch::autograd::variable_list rows = context->get_saved_variables();
    return {Drop::apply(gradients[0], rows[0], rows[1], mask), {}, {}, {}};
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

/// Returns the step and the samples on the device, which get there in one copy.
at::Tensor numbers_of(std::int64_t step, const std::vector<std::int64_t>& samples,
                      at::Device device) {
  std::vector<std::int64_t> numbers = {step};
  for (const std::int64_t sample : samples) {
    if (sample < 0 || sample > kMostElements)
      throw std::invalid_argument("dropout: sample " + std::to_string(sample) +
                                  " does not fit into 32 bits");
    numbers.push_back(sample);
  }
  return send_to(device, torch::tensor(numbers, torch::kLong));
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

Dropout::Rows::Rows(at::Tensor all, std::uint64_t digest)
    : numbers(std::move(all)),
      on_device{numbers.select(0, 0), numbers.narrow(0, 1, numbers.size(0) - 1)},
      digest(digest) {}

const Dropout::Rows* Dropout::Scope::rows_of(std::string_view input) const {
  auto found = inputs.find(input);
  if (found == inputs.end()) found = inputs.find("");
  return found == inputs.end() ? nullptr : &found->second;
}

/// Returns the names of the rows that pass through now; null if they have none.
const Dropout::Rows* Dropout::named_rows() const {
  return names_ ? names_->scope->rows_of(names_->input) : nullptr;
}

std::int64_t Dropout::rows() const {
  const Rows* const named = named_rows();
  return named ? named->on_device.samples.size(0) : 0;
}

std::optional<std::uint64_t> Dropout::drawing_seed() const {
  const Rows* const named = named_rows();
  if (!named) return {};
  return Random({names_->seed, static_cast<std::uint64_t>(names_->scope->key.step), names_->layer,
                 named->digest})
      .next();
}

/// Throws if the step or the rows have no names.
const DropoutRows& Dropout::rows_on_device() const {
  if (!names_) throw std::logic_error("dropout: no ScopedDropout sets the step and the samples");
  const Rows* const named = named_rows();
  if (!named) throw std::logic_error("dropout: no ScopedInput sets the input of these rows");
  return named->on_device;
}

/// Returns the mask of this layer, which has names.
DropoutMask Dropout::mask(double probability, DropoutUnit unit) const {
  return {.seed = names_->seed, .layer = names_->layer, .probability = probability, .unit = unit};
}

at::Tensor Dropout::forward(const at::Tensor& x, std::optional<double> probability) const {
  if (!is_active()) return x;
  const auto& [step, samples] = rows_on_device();
  return Drop::apply(x, step, samples, mask(probability.value_or(probability_), unit_));
}

at::Tensor Dropout::factor_of_all(const at::TensorOptions& options) const {
  const at::Tensor one = torch::ones({1, 1}, options);
  if (!is_active()) return one.squeeze();
  const at::Tensor step = rows_on_device().step,
                   first_sample = torch::zeros({1}, options.dtype(torch::kLong));
  return Drop::apply(one, step, first_sample, mask(probability_, DropoutUnit::kSample)).squeeze();
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

void DropoutNames::copy_from(const DropoutNames& other) const {
  const torch::NoGradGuard no_graph;
  std::set<const Dropout::Scope*> copied;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto& own = names_[i].second;
    if (!own || !copied.insert(own->scope.get()).second) continue;
    const Dropout::Scope& given = *other.names_.at(i).second.value().scope;
    for (const auto& [input, rows] : own->scope->inputs)
      rows.numbers.copy_(given.inputs.at(input).numbers);
  }
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
  for (const auto& [input, names] : rows)
    scope->inputs.emplace(
        input, Dropout::Rows(numbers_of(key.step, names, device_of(network)), digest_of(names)));
  before_ = std::move(before);
  for (std::uint32_t number = 0; const auto& entry : before_)
    entry.first->names_ = Dropout::Names{scope, number++, key.seed, ""};
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
    if (names && !names->scope->rows_of(name))
      throw std::logic_error("dropout: the rows of the input '" + std::string(name) +
                             "' have no names");
  }
  before_ = std::move(before);
  for (const auto& [layer, names] : before_) {
    if (!names) continue;
    layer->names_->input = name;
    layer->names_->seed = seed_of_input(names->scope->key.seed, name);
  }
}

ScopedInput::~ScopedInput() { Dropout::restore(before_); }

}  // namespace stages
