#include "stages/trace/processor.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

constexpr InstructionSets kRome{.avx2 = true}, kGenoa{.avx2 = true, .avx512 = true, .avx512_bf16 = true},
    kSapphireRapids{.avx2 = true, .avx512 = true, .avx512_bf16 = true, .newer = true};

TEST(Processor, IsWhatItBrings) {
  EXPECT_EQ(processor_of(kRome, "").kernels, Kernels::kAvx2);
  EXPECT_FALSE(processor_of(kRome, "").bf16);
  EXPECT_EQ(processor_of(kGenoa, "").kernels, Kernels::kAvx512Bf16);
  EXPECT_TRUE(processor_of(kGenoa, "").is_modelled);
}

TEST(Processor, ALimitLowersItInAnyCase) {
  EXPECT_EQ(processor_of(kGenoa, "AVX512_CORE").kernels, Kernels::kAvx512);
  EXPECT_EQ(processor_of(kGenoa, "avx2").kernels, Kernels::kAvx2);
  EXPECT_EQ(processor_of(kGenoa, "Avx").kernels, Kernels::kSse41);
}

TEST(Processor, AnUnknownOrHigherLimitLeavesAll) {
  EXPECT_EQ(processor_of(kGenoa, "fastest").kernels, Kernels::kAvx512Bf16);
  EXPECT_EQ(processor_of(kRome, "AVX512_CORE_BF16").kernels, Kernels::kAvx2);
}

TEST(Processor, MatrixUnitsAreBoundedUnlessTheyAreLeftOut) {
  EXPECT_FALSE(processor_of(kSapphireRapids, "").is_modelled);
  EXPECT_TRUE(processor_of(kSapphireRapids, "AVX512_CORE_BF16").is_modelled);
}

TEST(Processor, WithoutKernelsOfAvx2NothingIsModelled) { EXPECT_FALSE(processor_of({}, "").is_modelled); }

}  // namespace
}  // namespace stages
