#include "runner/shared/stage/split_mix.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(SplitMix, MatchesTheReferenceImplementation) {  // Vigna's splitmix64.c, seed 1234567
  std::uint64_t state = 1234567;
  for (const std::uint64_t number :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
        16408922859458223821u}) {
    EXPECT_EQ(split_mix(state += kSplitMixStep), number);
  }
}

TEST(SplitMix, HashesNamesAsFnvDoes) {  // the authors' test vectors
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace runner
