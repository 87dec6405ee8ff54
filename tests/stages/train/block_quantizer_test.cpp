#include "stages/train/block_quantizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"
#include "tests/support/scoped_threads.h"

namespace stages {
namespace {

const BlockQuantizer& quantizer(bool is_signed) {
  static const BlockQuantizer with_signs(true, at::Device(test_device())),
      without(false, at::Device(test_device()));
  return is_signed ? with_signs : without;
}

/// A quantized tensor, and memory for converting it.
struct Quantized {
  explicit Quantized(std::int64_t elements)
      : codes(torch::zeros({elements}, here().dtype(at::kByte))),
        absmax(torch::zeros({quantized_blocks(elements)}, here())) {
    const std::int64_t bytes = bytes_of(BlockQuantizer::scratch_parts(elements));
    scratch = BlockQuantizer::scratch_within(torch::full({bytes}, 255, here().dtype(at::kByte)),
                                             elements);
  }
  static Quantized of(const at::Tensor& moment, bool is_signed) {
    Quantized result(moment.numel());
    quantizer(is_signed).quantize(moment, result.codes, result.absmax, result.scratch, {});
    return result;
  }
  at::Tensor back(const at::Tensor& like, bool is_signed) const {
    at::Tensor moment = torch::empty_like(like);
    quantizer(is_signed).dequantize(codes, absmax, moment, scratch);
    return moment;
  }

  at::Tensor codes, absmax;
  BlockQuantizer::Scratch scratch;
};

TEST(DynamicMap, AscendsAndContainsZeroAndOne) {
  for (const bool is_signed : {true, false}) {
    const auto map = dynamic_map(is_signed);
    EXPECT_EQ(std::ranges::adjacent_find(map, std::greater_equal()), map.end());
    EXPECT_EQ(map[is_signed ? 127 : 0], 0);
    EXPECT_EQ(map.back(), 1);
    EXPECT_EQ(map.front() < 0, is_signed);
  }
}

TEST(BlockQuantizer, EachValueGetsTheNearestCode) {
  const at::Tensor moment =
      torch::randn({3, 1000}, here()) * torch::logspace(-6, 3, 1000, 10, here());
  for (const bool is_signed : {true, false}) {
    const at::Tensor given = is_signed ? moment : moment.square();
    const Quantized stored = Quantized::of(given, is_signed);
    const auto map = dynamic_map(is_signed);
    const at::Tensor flat = given.view(-1).cpu(), codes = stored.codes.cpu(),
                     absmax = stored.absmax.cpu();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const float scaled = flat[i].item<float>() / absmax[i / 256].item<float>();
      float least = std::numeric_limits<float>::infinity();
      for (const float value : map) least = std::min(least, std::abs(value - scaled));
      const float error = std::abs(map[codes[i].item<std::uint8_t>()] - scaled);
      ASSERT_LE(error, least + std::numeric_limits<float>::epsilon()) << i;
    }
  }
}

TEST(BlockQuantizer, MidpointsBetweenCodesGetTheLowerCode) {
  for (const bool is_signed : {true, false}) {
    const auto map = dynamic_map(is_signed);
    for (std::size_t code = 0; code + 1 < map.size(); ++code) {
      const float bound = (map[code] + map[code + 1]) / 2;
      const at::Tensor moment = torch::tensor({1.0F, map[code], std::nextafter(bound, -2.0F), bound,
                                               std::nextafter(bound, 2.0F), map[code + 1]},
                                              here());
      const auto i = static_cast<std::uint8_t>(code), next = static_cast<std::uint8_t>(code + 1);
      EXPECT_TRUE(
          Quantized::of(moment, is_signed)
              .codes.cpu()
              .equal(torch::tensor(std::vector<std::uint8_t>{255, i, i, i, next, next}, at::kByte)))
          << code;
    }
  }
}

TEST(BlockQuantizer, BlocksDoNotAffectEachOther) {
  const at::Tensor small = torch::rand({256}, here()) * 1e-20,
                   large = torch::rand({100}, here()) * 1e20;
  const Quantized both = Quantized::of(torch::cat({small, large}), false);
  EXPECT_TRUE(both.codes.narrow(0, 0, 256).equal(Quantized::of(small, false).codes));
  EXPECT_TRUE(both.codes.narrow(0, 256, 100).equal(Quantized::of(large, false).codes));
  EXPECT_EQ(both.absmax[0].item<float>(), small.max().item<float>());
  EXPECT_EQ(both.absmax[1].item<float>(), large.max().item<float>());
}

TEST(BlockQuantizer, ZerosStayZeros) {
  for (const bool is_signed : {true, false}) {
    const at::Tensor zeros = torch::zeros({300}, here());
    EXPECT_TRUE(Quantized::of(zeros, is_signed).back(zeros, is_signed).equal(zeros));
    EXPECT_TRUE(Quantized(300).back(zeros, is_signed).equal(zeros)) << "new state";
  }
}

TEST(BlockQuantizer, ResultDoesNotDependOnTheLayoutOfTheMoment) {
  const at::Tensor moment = torch::randn({5, 7, 3, 3}, here()),
                   other = moment.contiguous(at::MemoryFormat::ChannelsLast);
  const Quantized stored = Quantized::of(moment, true);
  EXPECT_TRUE(stored.codes.equal(Quantized::of(other, true).codes));
  EXPECT_TRUE(stored.back(moment, true).equal(stored.back(other, true)));
}

TEST(BlockQuantizer, SkippedStepKeepsCodes) {
  Quantized stored = Quantized::of(torch::randn({400}, here()), true);
  const at::Tensor codes = stored.codes.clone(), absmax = stored.absmax.clone();
  const at::Tensor other = torch::randn({400}, here());
  quantizer(true).quantize(other, stored.codes, stored.absmax, stored.scratch,
                           torch::ones({}, here()));
  EXPECT_TRUE(stored.codes.equal(codes));
  EXPECT_TRUE(stored.absmax.equal(absmax));
  quantizer(true).quantize(other, stored.codes, stored.absmax, stored.scratch,
                           torch::zeros({}, here()));
  EXPECT_TRUE(stored.codes.equal(Quantized::of(other, true).codes));
}

TEST(BlockQuantizer, ResultDoesNotDependOnTheThreadCount) {
  const at::Tensor moment = torch::randn({100'000}, here());
  const auto with = [&](int threads) {
    const ScopedThreads some(threads);
    return Quantized::of(moment, true);
  };
  const Quantized one = with(1), four = with(4);
  EXPECT_TRUE(one.codes.equal(four.codes));
  EXPECT_TRUE(one.absmax.equal(four.absmax));
  EXPECT_TRUE(one.back(moment, true).equal(four.back(moment, true)));
}

}  // namespace
}  // namespace stages
