#include "stages/random/dropout.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include <ATen/OpMathType.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/random/launch_dropout.h"
#include "stages/random/random.h"
#include "stages/tensor/batch.h"
#include "stages/tensor/parallel.h"

namespace stages {
namespace {

constexpr std::int64_t kMostElements = std::numeric_limits<std::uint32_t>::max();

/// apply_dropout() with a gradient, which is the same mask on the gradient.
class Drop : public torch::autograd::Function<Drop> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& samples,
                            const DropoutMask& mask) {
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
    const DropoutMask mask{.seed = static_cast<std::uint64_t>(saved.at("seed").toInt()),
                           .step = static_cast<std::uint32_t>(saved.at("step").toInt()),
                           .layer = static_cast<std::uint32_t>(saved.at("layer").toInt()),
                           .probability = saved.at("probability").toDouble(),
                           .unit = saved.at("each").toBool() ? DropoutUnit::kElement : DropoutUnit::kSample};
    return {Drop::apply(gradients[0], context->get_saved_variables()[0], mask), {}, {}};
  }
};

/// The dropout layers of a network in the order of its modules.
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
      throw std::invalid_argument("dropout: the sample " + std::to_string(sample) + " is not a number of 32 bits");
  }
  return send_to(device, torch::tensor(samples, torch::kLong));
}

/// The seed that an input's masks have; that of "" is the step's own.
std::uint64_t seed_of_input(std::uint64_t seed, std::string_view name) {
  for (const char letter : name) seed = Random({seed, static_cast<unsigned char>(letter)}).next();
  return seed;
}

}  // namespace

Dropout::Dropout(double probability, DropoutUnit unit) : probability_(probability), unit_(unit) {
  if (!(probability >= 0 && probability <= 1)) throw std::invalid_argument("dropout: the probability is not in [0, 1]");
}

at::Tensor Dropout::forward(const at::Tensor& x) const {
  if (!is_active()) return x;
  if (!names_) throw std::logic_error("dropout: no ScopedDropout names the step and the samples");
  if (!names_->samples.defined()) throw std::logic_error("dropout: no ScopedInput says which input's rows these are");
  return Drop::apply(x, names_->samples,
                     DropoutMask{.seed = names_->seed,
                                 .step = static_cast<std::uint32_t>(names_->scope->key.step),
                                 .layer = names_->layer,
                                 .probability = probability_,
                                 .unit = unit_});
}

Dropout::Saved Dropout::names_of(torch::nn::Module& module) {
  Saved names;
  for (Dropout* layer : dropout_layers(module)) names.emplace_back(layer, layer->names_);
  return names;
}

void Dropout::restore(Saved& saved) {
  // A layer that is in the network twice is put back to what it was first.
  for (auto entry = saved.rbegin(); entry != saved.rend(); ++entry) entry->first->names_ = std::move(entry->second);
}

ScopedDropout::ScopedDropout(torch::nn::Module& network, const StepKey& key, const RowNames& rows) {
  Dropout::Saved before = Dropout::names_of(network);
  // Layers that never drop anything need no names.
  if (std::ranges::none_of(before, [](const auto& entry) { return entry.first->probability_ > 0; })) return;
  if (key.step < 0 || key.step > kMostElements)
    throw std::invalid_argument("dropout: the step " + std::to_string(key.step) + " is not a number of 32 bits");
  auto scope = std::make_shared<Dropout::Scope>();
  scope->key = key;
  for (const auto& [input, names] : rows) scope->rows.emplace(input, numbers(names, device_of(network)));
  const auto all = scope->rows.find("");
  const at::Tensor samples = all == scope->rows.end() ? at::Tensor() : all->second;
  before_ = std::move(before);
  for (std::uint32_t number = 0; const auto& entry : before_)
    entry.first->names_ = Dropout::Names{scope, number++, key.seed, samples};
}

ScopedDropout::ScopedDropout(torch::nn::Module& network, const StepKey& key, const std::vector<std::int64_t>& samples)
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
      throw std::logic_error("dropout: the rows of the input '" + std::string(name) + "' have no names");
  }
  before_ = std::move(before);
  for (const auto& [layer, names] : before_) {
    if (!names) continue;
    const auto& rows = names->scope->rows;
    const auto own = rows.find(name);
    layer->names_->samples = own == rows.end() ? rows.find("")->second : own->second;
    layer->names_->seed = seed_of_input(names->scope->key.seed, name);
  }
}

ScopedInput::~ScopedInput() { Dropout::restore(before_); }

namespace {

/// Counters whose words are made at once, so that the compiler makes vectors of them.
constexpr int kPhiloxBlocks = 64;
constexpr std::int64_t kElements = 4 * kPhiloxBlocks;

// Compiled for several processors; the loader takes the best. Integers, and one product an element, are the same bits
// on all of them.
#define RETORT_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))

/// mask.words() of `sample` for the blocks from `first` on, one after another.
RETORT_FOR_EACH_PROCESSOR void fill_words(const DropoutMask& mask, std::uint32_t sample, std::uint32_t first,
                                          std::uint32_t* words) {
  std::uint32_t c0[kPhiloxBlocks], c1[kPhiloxBlocks], c2[kPhiloxBlocks], c3[kPhiloxBlocks];
  for (int i = 0; i < kPhiloxBlocks; ++i) {
    c0[i] = first + static_cast<std::uint32_t>(i);
    c1[i] = sample;
    c2[i] = mask.layer;
    c3[i] = mask.step;
  }
  auto k0 = static_cast<std::uint32_t>(mask.seed), k1 = static_cast<std::uint32_t>(mask.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kPhiloxBlocks; ++i) philox_round(c0[i], c1[i], c2[i], c3[i], k0, k1);
    next_philox_key(k0, k1);
  }
  for (int i = 0; i < kPhiloxBlocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

template <typename T>
void select(const T* x, T* y, const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count) {
  using Wide = at::opmath_type<T>;
  const auto factor = static_cast<Wide>(scale);
  for (std::int64_t i = 0; i < count; ++i) {
    const T kept = static_cast<T>(static_cast<Wide>(x[i]) * factor);
    y[i] = words[i] < threshold ? T(0) : kept;
  }
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const float* x, float* y, const std::uint32_t* words,
                                           std::uint32_t threshold, double scale, std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const double* x, double* y, const std::uint32_t* words,
                                           std::uint32_t threshold, double scale, std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const c10::BFloat16* x, c10::BFloat16* y, const std::uint32_t* words,
                                           std::uint32_t threshold, double scale, std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const c10::Half* x, c10::Half* y, const std::uint32_t* words,
                                           std::uint32_t threshold, double scale, std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}

template <typename T>
void run_loop(const DropoutMask& mask, const at::Tensor& x, const at::Tensor& samples, const at::Tensor& y) {
  const std::int64_t rows = x.size(0), width = x.numel() / rows;
  const std::int64_t pieces = (width + kElements - 1) / kElements;  // of a row
  const T* from = x.const_data_ptr<T>();
  T* to = y.mutable_data_ptr<T>();
  const auto* sample = samples.const_data_ptr<std::int64_t>();
  const auto threshold = static_cast<std::uint32_t>(mask.threshold());
  parallel_for(rows * pieces, at::internal::GRAIN_SIZE / kElements, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[kElements];
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t row = piece / pieces, first = piece % pieces * kElements;
      const auto key = static_cast<std::uint32_t>(sample[row]);
      if (mask.unit == DropoutUnit::kElement) fill_words(mask, key, static_cast<std::uint32_t>(first / 4), words);
      else std::fill_n(words, kElements, mask.words(key, 0).word[0]);
      const std::int64_t offset = row * width + first;
      apply_words(from + offset, to + offset, words, threshold, mask.scale(), std::min(kElements, width - first));
    }
  });
}

void run_loop(FloatType type, const DropoutMask& mask, const at::Tensor& x, const at::Tensor& samples,
              const at::Tensor& y) {
  switch (type) {
    case FloatType::kFloat32:
      return run_loop<float>(mask, x, samples, y);
    case FloatType::kFloat64:
      return run_loop<double>(mask, x, samples, y);
    case FloatType::kFloat16:
      return run_loop<c10::Half>(mask, x, samples, y);
    case FloatType::kBFloat16:
      return run_loop<c10::BFloat16>(mask, x, samples, y);
  }
}

#ifdef RETORT_KERNELS
void run_kernel(FloatType type, const DropoutMask& mask, const at::Tensor& x, const at::Tensor& samples,
                const at::Tensor& y) {
  const c10::DeviceGuard current(x.device());
  const c10::Stream stream = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
  launch_dropout(mask, type, x.const_data_ptr(), y.mutable_data_ptr(), samples.const_data_ptr<std::int64_t>(),
                 x.size(0), x.numel() / x.size(0), stream.native_handle());
}
#endif

/// The words of all elements of all rows, (rows, 4 · blocks) int64. Products of two 32-bit words are taken modulo 2^64,
/// which is what int64 holds of them.
at::Tensor words_by_operators(const DropoutMask& mask, const at::Tensor& samples, std::int64_t blocks) {
  constexpr std::int64_t kLow = 0xFFFFFFFF;
  const auto high = [](const at::Tensor& product) { return product.bitwise_right_shift(32).bitwise_and(kLow); };
  const at::Tensor zeros = at::zeros({samples.size(0), blocks}, samples.options());
  at::Tensor c0 = zeros + at::arange(blocks, samples.options()), c1 = zeros + samples.unsqueeze(1),
             c2 = zeros + static_cast<std::int64_t>(mask.layer), c3 = zeros + static_cast<std::int64_t>(mask.step);
  auto k0 = static_cast<std::uint32_t>(mask.seed), k1 = static_cast<std::uint32_t>(mask.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const at::Tensor a = c0 * std::int64_t{kPhiloxMultiplier0}, b = c2 * std::int64_t{kPhiloxMultiplier1};
    c0 = high(b).bitwise_xor(c1).bitwise_xor(std::int64_t{k0});
    c2 = high(a).bitwise_xor(c3).bitwise_xor(std::int64_t{k1});
    c1 = b.bitwise_and(kLow);
    c3 = a.bitwise_and(kLow);
    next_philox_key(k0, k1);
  }
  return at::stack({c0, c1, c2, c3}, 2).flatten(1);
}

FloatType float_type(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return FloatType::kFloat32;
    case at::kDouble:
      return FloatType::kFloat64;
    case at::kHalf:
      return FloatType::kFloat16;
    case at::kBFloat16:
      return FloatType::kBFloat16;
    default:
      throw std::invalid_argument("dropout: the input's type is " + std::string(c10::toString(x.scalar_type())));
  }
}

void check(const at::Tensor& x, const at::Tensor& samples) {
  const auto refuse = [](const std::string& message) { throw std::invalid_argument("dropout: " + message); };
  if (x.dim() == 0) refuse("the input has no rows");
  if (samples.dim() != 1 || samples.size(0) != x.size(0)) {
    refuse("the input has " + std::to_string(x.size(0)) + " rows, for " + std::to_string(samples.numel()) + " samples");
  }
  if (samples.scalar_type() != at::kLong || samples.device() != x.device()) {
    refuse("the samples are not int64 on the input's device");
  }
  if (x.numel() > x.size(0) * (std::int64_t{1} << 34)) refuse("a sample has more than 2^34 elements");
}

}  // namespace

at::Tensor apply_dropout(const DropoutMask& mask, const at::Tensor& x, const at::Tensor& samples) {
  check(x, samples);
  const FloatType type = float_type(x);
  const torch::NoGradGuard no_graph;
  if (mask.drops_all()) return at::zeros_like(x, at::MemoryFormat::Contiguous);
  const at::Tensor from = x.contiguous(), to = at::empty_like(from);
  if (x.numel() == 0 || x.is_meta()) return to;
  if (x.is_cpu()) {
    run_loop(type, mask, from, samples.contiguous(), to);
    return to;
  }
#ifdef RETORT_KERNELS
  if (x.is_cuda()) {
    run_kernel(type, mask, from, samples.contiguous(), to);
    return to;
  }
#endif
  return apply_dropout_by_operators(mask, from, samples);
}

at::Tensor apply_dropout_by_operators(const DropoutMask& mask, const at::Tensor& x, const at::Tensor& samples) {
  check(x, samples);
  const torch::NoGradGuard no_graph;
  if (mask.drops_all() || x.numel() == 0) return at::zeros_like(x, at::MemoryFormat::Contiguous);
  const std::int64_t width = x.numel() / x.size(0);
  const bool each = mask.unit == DropoutUnit::kElement;
  const at::Tensor words = words_by_operators(mask, samples, each ? (width + 3) / 4 : 1).narrow(1, 0, each ? width : 1);
  const at::Tensor dropped = words.lt(static_cast<std::int64_t>(mask.threshold()));
  const at::Tensor flat = x.reshape({x.size(0), width});
  const at::Tensor wide = flat.to(float_type(x) == FloatType::kFloat64 ? at::kDouble : at::kFloat);
  return (wide * mask.scale()).to(x.scalar_type()).masked_fill(dropped, 0).view(x.sizes());
}

#undef RETORT_FOR_EACH_PROCESSOR

}  // namespace stages
