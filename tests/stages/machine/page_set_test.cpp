#include "stages/machine/block_pool.h"

#include <random>
#include <set>

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PageSet, TouchingRangesMerge) {
  PageSet set;
  set.add({10, 20});
  set.add({30, 40});
  EXPECT_THAT(set.present({0, 100}), ElementsAre(AddressRange{10, 20}, AddressRange{30, 40}));
  set.add({20, 30});
  EXPECT_THAT(set.present({0, 100}), ElementsAre(AddressRange{10, 40}));
  EXPECT_EQ(set.bytes(), 30);
}

TEST(PageSet, RemovingTheMiddleLeavesBothEnds) {
  PageSet set;
  set.add({10, 40});
  set.remove({15, 35});
  EXPECT_THAT(set.present({0, 100}), ElementsAre(AddressRange{10, 15}, AddressRange{35, 40}));
  EXPECT_THAT(set.missing({0, 100}),
              ElementsAre(AddressRange{0, 10}, AddressRange{15, 35}, AddressRange{40, 100}));
  EXPECT_THAT(set.missing({12, 15}), IsEmpty());
}

TEST(PageSet, MatchesASetOfNumbers) {
  std::mt19937 random(5);
  PageSet set;
  std::set<std::int64_t> numbers;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t begin = random() % 60, end = begin + random() % 12;
    const bool is_added = random() % 2 == 0;
    is_added ? set.add({begin, end}) : set.remove({begin, end});
    for (std::int64_t number = begin; number < end; ++number) {
      if (is_added) numbers.insert(number);
      else numbers.erase(number);
    }
    ASSERT_EQ(set.bytes(), static_cast<std::int64_t>(numbers.size()));
    std::set<std::int64_t> present;
    for (const AddressRange& part : set.present({0, 100})) {
      for (std::int64_t number = part.begin; number < part.end; ++number) present.insert(number);
    }
    ASSERT_EQ(present, numbers);
    std::int64_t missing = 0;
    for (const AddressRange& part : set.missing({20, 50})) missing += part.bytes();
    ASSERT_EQ(missing, 30 - std::distance(numbers.lower_bound(20), numbers.lower_bound(50)));
  }
}

}  // namespace
}  // namespace stages
