#include "runner/disk/sha256.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Sha256, KnownDigests) {  // FIPS 180-4's examples
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesMakeTheDigestOfTheWhole) {
  Sha256 pieces;
  pieces.update("a");
  pieces.update("");
  pieces.update("bc");
  EXPECT_EQ(pieces.digest(), sha256("abc"));
}

}  // namespace
}  // namespace runner
