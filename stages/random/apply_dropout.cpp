#include "stages/random/apply_dropout.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include <ATen/OpMathType.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/random/launch_dropout.h"
#include "stages/tensor/parallel.h"

namespace stages {
namespace {

/// The number of Philox counters processed together, so that the compiler can vectorize the loop.
constexpr int kPhiloxBlocks = 64;
constexpr std::int64_t kElements = 4 * kPhiloxBlocks;

// Compiles a function for several processors; the loader picks the best version. All versions give
// bit-identical results, since they use only integer arithmetic and one product per element.
#define RETORT_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))

/// Computes mask.words() of `sample` at `step` for kPhiloxBlocks consecutive blocks, starting at
/// `first`.
RETORT_FOR_EACH_PROCESSOR void fill_words(const DropoutMask& mask, std::uint32_t step,
                                          std::uint32_t sample, std::uint32_t first,
                                          std::uint32_t* words) {
  std::uint32_t c0[kPhiloxBlocks], c1[kPhiloxBlocks], c2[kPhiloxBlocks], c3[kPhiloxBlocks];
  for (int i = 0; i < kPhiloxBlocks; ++i) {
    c0[i] = first + static_cast<std::uint32_t>(i);
    c1[i] = sample;
    c2[i] = mask.layer;
    c3[i] = step;
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
void select(const T* x, T* y, const std::uint32_t* words, std::uint32_t threshold, double scale,
            std::int64_t count) {
  using Wide = at::opmath_type<T>;
  const auto factor = static_cast<Wide>(scale);
  for (std::int64_t i = 0; i < count; ++i) {
    const T kept = static_cast<T>(static_cast<Wide>(x[i]) * factor);
    y[i] = words[i] < threshold ? T(0) : kept;
  }
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const float* x, float* y, const std::uint32_t* words,
                                           std::uint32_t threshold, double scale,
                                           std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const double* x, double* y, const std::uint32_t* words,
                                           std::uint32_t threshold, double scale,
                                           std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const c10::BFloat16* x, c10::BFloat16* y,
                                           const std::uint32_t* words, std::uint32_t threshold,
                                           double scale, std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}
RETORT_FOR_EACH_PROCESSOR void apply_words(const c10::Half* x, c10::Half* y,
                                           const std::uint32_t* words, std::uint32_t threshold,
                                           double scale, std::int64_t count) {
  select(x, y, words, threshold, scale, count);
}

template <typename T>
void run_loop(const DropoutMask& mask, const at::Tensor& x, const DropoutRows& rows,
              const at::Tensor& y) {
  const std::int64_t count = x.size(0), width = x.numel() / count;
  const std::int64_t pieces = (width + kElements - 1) / kElements;  // pieces per row
  const T* from = x.const_data_ptr<T>();
  T* to = y.mutable_data_ptr<T>();
  const auto step = static_cast<std::uint32_t>(*rows.step.const_data_ptr<std::int64_t>());
  const auto* sample = rows.samples.const_data_ptr<std::int64_t>();
  const auto threshold = static_cast<std::uint32_t>(mask.threshold());
  parallel_for(count * pieces, at::internal::GRAIN_SIZE / kElements,
               [&](std::int64_t begin, std::int64_t end) {
                 std::uint32_t words[kElements];
                 for (std::int64_t piece = begin; piece < end; ++piece) {
                   const std::int64_t row = piece / pieces, first = piece % pieces * kElements;
                   const auto key = static_cast<std::uint32_t>(sample[row]);
                   if (mask.unit == DropoutUnit::kElement)
                     fill_words(mask, step, key, static_cast<std::uint32_t>(first / 4), words);
                   else std::fill_n(words, kElements, mask.words(step, key, 0).word[0]);
                   const std::int64_t offset = row * width + first;
                   apply_words(from + offset, to + offset, words, threshold, mask.scale(),
                               std::min(kElements, width - first));
                 }
               });
}

void run_loop(FloatType type, const DropoutMask& mask, const at::Tensor& x, const DropoutRows& rows,
              const at::Tensor& y) {
  switch (type) {
    case FloatType::kFloat32:
      return run_loop<float>(mask, x, rows, y);
    case FloatType::kFloat64:
      return run_loop<double>(mask, x, rows, y);
    case FloatType::kFloat16:
      return run_loop<c10::Half>(mask, x, rows, y);
    case FloatType::kBFloat16:
      return run_loop<c10::BFloat16>(mask, x, rows, y);
  }
}

#ifdef RETORT_KERNELS
void run_kernel(FloatType type, const DropoutMask& mask, const at::Tensor& x,
                const DropoutRows& rows, const at::Tensor& y) {
  const c10::DeviceGuard current(x.device());
  const c10::Stream stream = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
  launch_dropout(mask, type, x.const_data_ptr(), y.mutable_data_ptr(),
                 rows.step.const_data_ptr<std::int64_t>(),
                 rows.samples.const_data_ptr<std::int64_t>(), x.size(0), x.numel() / x.size(0),
                 stream.native_handle());
}
#endif

/// Returns the words of all elements of all rows, as int64 of shape (rows, 4 · blocks). Products of
/// two 32-bit words wrap modulo 2^64, as int64 does.
at::Tensor words_by_operators(const DropoutMask& mask, const DropoutRows& rows,
                              std::int64_t blocks) {
  constexpr std::int64_t kLow = 0xFFFFFFFF;
  const auto high = [](const at::Tensor& product) {
    return product.bitwise_right_shift(32).bitwise_and(kLow);
  };
  const at::TensorOptions options = rows.samples.options();
  const at::Tensor zeros = at::zeros({rows.samples.size(0), blocks}, options);
  at::Tensor c0 = zeros + at::arange(blocks, options), c1 = zeros + rows.samples.unsqueeze(1),
             c2 = zeros + static_cast<std::int64_t>(mask.layer), c3 = zeros + rows.step;
  auto k0 = static_cast<std::uint32_t>(mask.seed), k1 = static_cast<std::uint32_t>(mask.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const at::Tensor a = c0 * std::int64_t{kPhiloxMultiplier0},
                     b = c2 * std::int64_t{kPhiloxMultiplier1};
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
      throw std::invalid_argument("dropout: the input's type is " +
                                  std::string(c10::toString(x.scalar_type())));
  }
}

void check(const at::Tensor& x, const DropoutRows& rows) {
  const auto refuse = [](const std::string& message) {
    throw std::invalid_argument("dropout: " + message);
  };
  if (x.dim() == 0) refuse("the input has no rows");
  if (rows.samples.dim() != 1 || rows.samples.size(0) != x.size(0)) {
    refuse("the input has " + std::to_string(x.size(0)) + " rows, for " +
           std::to_string(rows.samples.numel()) + " samples");
  }
  for (const at::Tensor& numbers : {rows.samples, rows.step}) {
    if (numbers.scalar_type() != at::kLong || numbers.device() != x.device())
      refuse("the samples or the step are not int64 on the input's device");
  }
  if (rows.step.numel() != 1) refuse("the step is not one number");
  if (x.numel() > x.size(0) * (std::int64_t{1} << 34))
    refuse("a sample has more than 2^34 elements");
}

}  // namespace

at::Tensor apply_dropout(const DropoutMask& mask, const at::Tensor& x, const DropoutRows& rows) {
  check(x, rows);
  const FloatType type = float_type(x);
  const torch::NoGradGuard no_graph;
  if (mask.drops_all()) return at::zeros_like(x, at::MemoryFormat::Contiguous);
  const at::Tensor from = x.contiguous(), to = at::empty_like(from);
  if (x.numel() == 0 || x.is_meta()) return to;
  if (x.is_cpu()) {
    run_loop(type, mask, from, {rows.step, rows.samples.contiguous()}, to);
    return to;
  }
#ifdef RETORT_KERNELS
  if (x.is_cuda()) {
    run_kernel(type, mask, from, {rows.step, rows.samples.contiguous()}, to);
    return to;
  }
#endif
  return apply_dropout_by_operators(mask, from, rows);
}

at::Tensor apply_dropout_by_operators(const DropoutMask& mask, const at::Tensor& x,
                                      const DropoutRows& rows) {
  check(x, rows);
  const torch::NoGradGuard no_graph;
  if (mask.drops_all() || x.numel() == 0) return at::zeros_like(x, at::MemoryFormat::Contiguous);
  const std::int64_t width = x.numel() / x.size(0);
  const bool each = mask.unit == DropoutUnit::kElement;
  const at::Tensor words =
      words_by_operators(mask, rows, each ? (width + 3) / 4 : 1).narrow(1, 0, each ? width : 1);
  const at::Tensor dropped = words.lt(static_cast<std::int64_t>(mask.threshold()));
  const at::Tensor flat = x.reshape({x.size(0), width});
  const at::Tensor wide = flat.to(float_type(x) == FloatType::kFloat64 ? at::kDouble : at::kFloat);
  return (wide * mask.scale()).to(x.scalar_type()).masked_fill(dropped, 0).view(x.sizes());
}

#undef RETORT_FOR_EACH_PROCESSOR

}  // namespace stages
