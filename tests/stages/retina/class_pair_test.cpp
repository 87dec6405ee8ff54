#include "stages/retina/train_binary.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using testing::ElementsAre;

runner::Diagnostics refusal(const std::function<void()>& work) { return refusals_of(work); }

TEST(ClassPair, HasOnlySamplesOfItsTwoClasses) {
  const ClassPair pair(std::make_shared<TinyDataset>(11, /*classes=*/4), {1, 3});
  EXPECT_THAT(pair.labels(), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(pair.describe().size, 5);
  EXPECT_THAT(pair.describe().classes, ElementsAre("class1", "class3"));
  EXPECT_EQ(pair.describe().pair_of, 4);
  EXPECT_EQ(pair.sample_name(3), "point7");
  for (std::int64_t index = 0; index < 5; ++index) {
    EXPECT_EQ(pair.sample(0, index)->at("label").item<std::int64_t>(), index % 2);
    EXPECT_TRUE(pair.sample(0, index)->at("image").equal(
        TinyDataset(11, 4).sample(0, 1 + 2 * index)->at("image")));
  }
}

TEST(ClassPair, ClassesKeepTheirOrder) {
  const ClassPair pair(std::make_shared<TinyDataset>(9), {2, 0});
  EXPECT_THAT(pair.describe().classes, ElementsAre("class2", "class0"));
  EXPECT_THAT(pair.labels(), ElementsAre(1, 0, 1, 0, 1, 0));
}

TEST(ClassPair, ClassesAreChosenByNumberOrName) {
  const std::vector<std::string> classes = {"mild", "moderate", "severe"};
  EXPECT_EQ(chosen_class(std::int64_t{2}, classes), 2);
  EXPECT_EQ(chosen_class("moderate", classes), 1);
  EXPECT_REFUSED(refusal([&] { chosen_class(std::int64_t{3}, classes); }), kLabelOutOfRange,
                 "/classes", "class 3");
  EXPECT_REFUSED(refusal([&] { chosen_class("sever", classes); }), kLabelOutOfRange, "/classes",
                 "'sever'");
}

TEST(ClassPair, ClassWithoutSamplesIsReported) {
  const auto data = std::make_shared<TinyDataset>(2);
  EXPECT_REFUSED(refusal([&] {
                   ClassPair(data, {0, 2});
                 }),
                 kLabelOutOfRange, "/classes", "'class2'");
  EXPECT_REFUSED(refusal([&] {
                   ClassPair(data, {0, 2}, 0, "validation data");
                 }),
                 kLabelOutOfRange, "/classes", "validation data", "'class2'");
  data->tells_labels = false;
  EXPECT_REFUSED(refusal([&] {
                   ClassPair(data, {0, 1});
                 }),
                 kLabelOutOfRange, "/classes", "in advance");
}

/// Checks whether an incomplete last batch of 2 * `each` samples is omitted if the loader says so.
bool leaves_out(std::int64_t each, std::int64_t batch_size, bool drop_last) {
  const auto data = std::make_shared<TinyDataset>(3 * each);
  data->options.drop_last = drop_last;
  return ClassPair(data, {0, 1}, batch_size).loader().drop_last;
}

TEST(ClassPair, EpochHasAtLeastOneStep) {
  EXPECT_TRUE(leaves_out(10, 16, true));
  EXPECT_TRUE(leaves_out(8, 16, true));
  EXPECT_FALSE(leaves_out(7, 16, true));
  EXPECT_FALSE(leaves_out(1, 16, true));
}

}  // namespace
}  // namespace stages
