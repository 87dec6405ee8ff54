#include "tests/support/kernels_on_cpu/shadow.h"

#include <string>

#include <gtest/gtest.h>

namespace kernels_on_cpu {
namespace {

constexpr Turn kFirstBlock{.launch = 1, .block = 0}, kSecondBlock{.launch = 1, .block = 1};

struct ShadowTest : testing::Test {
  /// The fault of reading or writing the first element.
  std::string read(const Turn& now) { return shadow.see({x, 4, false}, now).value_or(""); }
  std::string write(const Turn& now) { return shadow.see({x, 4, true}, now).value_or(""); }
  void add(MemoryKind kind) { shadow.add({"x", x, sizeof x, kind, true}); }

  float x[2] = {};
  Shadow shadow;
};

TEST_F(ShadowTest, WritingToAConstantIsAFault) {
  add(MemoryKind::kConstant);
  EXPECT_EQ(read(kFirstBlock), "");
  EXPECT_EQ(write(kFirstBlock),
            "thread 0 of block 0 writes 4 bytes at byte 0 of x, which is constant");
}

TEST_F(ShadowTest, WritingMemoryReadBySeveralBlocksIsARace) {
  add(MemoryKind::kGlobal);
  EXPECT_EQ(read(kFirstBlock), "");
  EXPECT_EQ(read(kSecondBlock), "");
  const Turn after_barrier{.launch = 1, .block = 1, .barriers = 1};
  EXPECT_EQ(write(after_barrier),
            "thread 0 of block 1 writes 4 bytes at byte 0 of x, which several blocks read in the "
            "same launch");
}

TEST_F(ShadowTest, LaunchesRunOneAfterTheOther) {
  add(MemoryKind::kGlobal);
  EXPECT_EQ(write(kFirstBlock), "");
  EXPECT_EQ(write({.launch = 2, .block = 1}), "");
}

TEST_F(ShadowTest, AccessPartlyPastTheEndIsOutOfBounds) {
  add(MemoryKind::kGlobal);
  EXPECT_EQ(shadow.see({x + 1, 8, false}, kFirstBlock),
            "thread 0 of block 0 reads 8 bytes at byte 4 of x, which has 8");
}

TEST_F(ShadowTest, RemovedMemoryIsOutOfBounds) {
  add(MemoryKind::kGlobal);
  shadow.remove(x);
  EXPECT_EQ(read(kFirstBlock), "thread 0 of block 0 reads 4 bytes in no array");
}

}  // namespace
}  // namespace kernels_on_cpu
