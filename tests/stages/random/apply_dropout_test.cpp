#include "stages/random/apply_dropout.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"

namespace stages {
namespace {

constexpr DropoutMask kMask{.seed = 0x123456789abcdef0, .layer = 3, .probability = 0.3};
constexpr std::int64_t kStep = 7;

at::Tensor ids(std::vector<std::int64_t> numbers) {
  return torch::tensor(numbers, here().dtype(torch::kLong));
}

/// The rows of samples at a step.
DropoutRows rows_of(const at::Tensor& samples, std::int64_t step = kStep) {
  return {torch::full({}, step, samples.options()), samples};
}

/// Follows the header's definition, one element at a time.
at::Tensor one_by_one(const DropoutMask& mask, const at::Tensor& x, const at::Tensor& samples) {
  const at::Tensor flat = x.contiguous().view({x.size(0), -1}).to(torch::kDouble);
  at::Tensor result = torch::zeros_like(flat);
  for (std::int64_t row = 0; row < flat.size(0); ++row) {
    const auto sample = static_cast<std::uint32_t>(samples[row].item<std::int64_t>());
    for (std::int64_t element = 0; element < flat.size(1); ++element) {
      const std::int64_t drawn = mask.unit == DropoutUnit::kElement ? element : 0;
      const PhiloxWords words = mask.words(kStep, sample, static_cast<std::uint32_t>(drawn / 4));
      if (words.word[drawn % 4] < mask.threshold()) continue;
      const double value = flat[row][element].item<double>();
      const double product = x.scalar_type() == torch::kDouble
                                 ? value * mask.scale()
                                 : static_cast<float>(value) * static_cast<float>(mask.scale());
      result[row][element] = product;
    }
  }
  return result.to(torch::kFloat).to(x.scalar_type()).view(x.sizes());
}

TEST(ApplyDropout, EveryElementUsesItsOwnRandomWord) {
  torch::manual_seed(1);
  for (const DropoutUnit unit : {DropoutUnit::kElement, DropoutUnit::kSample}) {
    DropoutMask mask = kMask;
    mask.unit = unit;
    for (const at::ScalarType type : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
      for (const std::int64_t width : {1, 3, 4, 255, 256, 257}) {
        const at::Tensor x = torch::randn({3, width}, here()).to(type),
                         samples = ids({5, 0xFFFFFFFF, 0});
        EXPECT_TRUE(apply_dropout(mask, x, rows_of(samples)).equal(one_by_one(mask, x, samples)))
            << type << " " << width;
      }
    }
  }
}

TEST(ApplyDropout, OperatorsMatchTheLoopBitForBit) {
  torch::manual_seed(2);
  for (const DropoutUnit unit : {DropoutUnit::kElement, DropoutUnit::kSample}) {
    DropoutMask mask = kMask;
    mask.unit = unit;
    for (const at::ScalarType type :
         {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
      const at::Tensor x = torch::randn({4, 3, 111}, here()).to(type),
                       samples = ids({9, 1, 0xFFFFFFFF, 9});
      const at::Tensor loop = apply_dropout(mask, x, rows_of(samples));
      EXPECT_TRUE(apply_dropout_by_operators(mask, x, rows_of(samples)).equal(loop)) << type;
      EXPECT_EQ(loop.scalar_type(), type);
      EXPECT_TRUE(loop[0].ne(0).equal(loop[3].ne(0)));  // one sample, one mask
    }
  }
}

TEST(ApplyDropout, EveryTypeDropsTheSameElements) {
  const at::Tensor x = torch::ones({2, 1000}, here().dtype(torch::kDouble)), samples = ids({4, 5});
  const at::Tensor kept = apply_dropout(kMask, x, rows_of(samples)).ne(0);
  for (const at::ScalarType type : {torch::kFloat, torch::kHalf, torch::kBFloat16})
    EXPECT_TRUE(apply_dropout(kMask, x.to(type), rows_of(samples)).ne(0).equal(kept)) << type;
}

TEST(ApplyDropout, RowIsTheSameInAnyBatchAndLayout) {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({7, 5, 6, 11}, here()),
                   samples = torch::randperm(7, here().dtype(at::kLong)) + 100;
  const at::Tensor whole = apply_dropout(kMask, x, rows_of(samples));
  EXPECT_TRUE(apply_dropout(kMask, x.narrow(0, 4, 3), rows_of(samples.narrow(0, 4, 3)))
                  .equal(whole.narrow(0, 4, 3)));
  EXPECT_TRUE(apply_dropout(kMask, x.contiguous(at::MemoryFormat::ChannelsLast), rows_of(samples))
                  .equal(whole));
  EXPECT_TRUE(apply_dropout(kMask, x.flip(0), rows_of(samples.flip(0))).equal(whole.flip(0)));
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(apply_dropout(kMask, x, rows_of(samples)).equal(whole));
  at::set_num_threads(threads);
}

/// Returns how far the number of zeros among a million is from its expectation, in standard
/// deviations.
double deviation(const at::Tensor& y, double probability) {
  const auto count = static_cast<double>(y.numel());
  return (y.eq(0).sum().item<double>() - count * probability) /
         std::sqrt(count * probability * (1 - probability));
}

TEST(ApplyDropout, RateIsTheProbability) {
  const at::Tensor x = torch::ones({1000, 1000}, here()), samples = torch::arange(1000, here());
  for (const double probability : {0.001, 0.1, 0.5, 0.9}) {
    DropoutMask mask = kMask;
    mask.probability = probability;
    const at::Tensor y = apply_dropout(mask, x, rows_of(samples));
    EXPECT_LT(std::abs(deviation(y, probability)), 4) << probability;
    EXPECT_EQ(y.max().item<float>(), static_cast<float>(1 / (1 - probability)));
    mask.unit = DropoutUnit::kSample;
    EXPECT_LT(
        std::abs(deviation(apply_dropout(mask, x, rows_of(samples)).select(1, 0), probability)), 4)
        << probability;
  }
}

TEST(ApplyDropout, MasksForDifferentSeedsStepsLayersAndSamplesAreIndependent) {
  const at::Tensor x = torch::ones({1, 1'000'000}, here()), samples = ids({1});
  const auto dropped = [&](const DropoutMask& mask, const at::Tensor& sample,
                           std::int64_t step = kStep) {
    return apply_dropout(mask, x, rows_of(sample, step)).eq(0);
  };
  const at::Tensor first = dropped(kMask, samples);
  DropoutMask seed = kMask, high_seed = kMask, layer = kMask;
  seed.seed ^= 1;
  high_seed.seed ^= std::uint64_t{1} << 40;
  ++layer.layer;
  for (const at::Tensor& other :
       {dropped(seed, samples), dropped(high_seed, samples), dropped(kMask, samples, kStep + 1),
        dropped(layer, samples), dropped(kMask, ids({2}))}) {
    const at::Tensor both = first.logical_and(other).logical_not();  // zero if both drop it
    EXPECT_LT(std::abs(deviation(both.to(torch::kFloat), 0.09)), 4);
  }
}

TEST(ApplyDropout, ProbabilitiesZeroAndOneAreExact) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor x =
      torch::tensor({1.0, -2.5, infinity, std::nan(""), 1e-300}, here().dtype(torch::kDouble))
          .unsqueeze(0);
  DropoutMask mask = kMask;
  mask.probability = 0;
  const at::Tensor none = apply_dropout(mask, x, rows_of(ids({0})));
  EXPECT_TRUE(none.isnan().equal(x.isnan()));
  EXPECT_TRUE(none.nan_to_num(3).equal(x.nan_to_num(3)));
  mask.probability = 1;
  EXPECT_TRUE(apply_dropout(mask, x, rows_of(ids({0}))).equal(torch::zeros_like(x)));
  EXPECT_TRUE(apply_dropout_by_operators(mask, x, rows_of(ids({0}))).equal(torch::zeros_like(x)));
}

TEST(ApplyDropout, EmptyAndMetaInputsGiveOnlyAShape) {
  EXPECT_EQ(apply_dropout(kMask, torch::ones({0, 3}, here()), rows_of(ids({}))).sizes(),
            at::IntArrayRef({0, 3}));
  const at::Tensor meta = torch::ones({2, 3}, torch::kMeta);
  EXPECT_TRUE(apply_dropout(kMask, meta, rows_of(ids({1, 2}).to(torch::kMeta))).is_meta());
}

TEST(ApplyDropout, InvalidInputsAreRejected) {
  const auto message = [](const at::Tensor& x, const at::Tensor& samples,
                          const at::Tensor& step = ids({kStep}).squeeze()) -> std::string {
    try {
      apply_dropout(kMask, x, {step, samples});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(torch::ones({2, 3}, here()), ids({1})),
            "dropout: the input has 2 rows, for 1 samples");
  EXPECT_EQ(message(torch::ones({}, here()), ids({1})), "dropout: the input has no rows");
  EXPECT_EQ(message(torch::ones({1, 3}, here().dtype(torch::kInt)), ids({1})),
            "dropout: the input's type is Int");
  EXPECT_EQ(message(torch::ones({1, 3}, here()), torch::ones(1, here())),
            "dropout: the samples or the step are not int64 on the input's device");
  EXPECT_EQ(message(torch::ones({1, 3}, here()), ids({1}), torch::ones({}, here())),
            "dropout: the samples or the step are not int64 on the input's device");
  EXPECT_EQ(message(torch::ones({1, 3}, here()), ids({1}), ids({1, 2})),
            "dropout: the step is not one number");
}

}  // namespace
}  // namespace stages
