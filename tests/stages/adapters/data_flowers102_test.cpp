#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/adapters/made_datasets.h"
#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;

class Flowers102 : public ImageStageTest {
 protected:
  Flowers102() : ImageStageTest(kDataFlowers102) {}
  void SetUp() override {
    make_flowers102(data(), {.classes = 3, .per_class = 8, .size = 20, .seed = 3});
  }
};

TEST_F(Flowers102, OutputsThePublishedParts) {
  const auto outputs = run({{"image_size", 16}});
  EXPECT_THAT(context_.said,
              ElementsAre("3 classes; 6 images for training, 6 for validation, 12 for test"));
  const auto train = part(outputs, "train");
  EXPECT_EQ(train->describe().size, 6);
  EXPECT_THAT(train->describe().classes,
              ElementsAre("stripes_horizontal", "stripes_vertical", "disc"));
  EXPECT_EQ(image(*train).sizes(), (std::vector<std::int64_t>{3, 16, 16}));
  EXPECT_EQ(label(*train, 0), 0);
  EXPECT_EQ(part(outputs, "validation")->describe().size, 6);
  EXPECT_EQ(part(outputs, "test")->describe().size, 12);
}

TEST_F(Flowers102, PartsOptionSelectsTheTrainingImages) {
  const auto both = run({{"parts", "train_and_validation"}});
  EXPECT_EQ(part(both, "train")->describe().size, 12);
  EXPECT_EQ(part(both, "validation"), nullptr);
  const auto swapped = run({{"parts", "swapped"}});
  EXPECT_EQ(part(swapped, "train")->describe().size, 12);
  EXPECT_EQ(part(swapped, "validation")->describe().size, 6);
  EXPECT_EQ(part(swapped, "train")->sample_name(0), part(both, "test")->sample_name(0));
}

TEST_F(Flowers102, FoldsDivideTheTrainingImagesIndependentlyOfTheSeed) {
  const auto validated = [&] {
    const auto outputs =
        run({{"parts", "train_and_validation"}, {"folds", {{"count", 4}, {"index", 1}}}});
    return names(*part(outputs, "validation"));
  };
  const auto first = validated();
  EXPECT_EQ(context_.said.front(),
            "3 classes; 9 images for training, 3 for validation, 12 for test");
  context_.facts.seed = 9;
  EXPECT_EQ(validated(), first);
}

TEST_F(Flowers102, AcceptsImageOptions) {
  const auto plain = run({{"image_size", 16}});
  const auto flipped =
      run({{"image_size", 16}, {"augment", {{"horizontal_flip", 1.0}}}, {"cache_mib", 1}});
  const auto second = [](const runner::Outputs& outputs, const char* port) {
    return image(*part(outputs, port), 0, 1);
  };
  EXPECT_TRUE(image(*to_train_on(flipped), 0, 1).equal(second(plain, "train").flip(2)));
  EXPECT_TRUE(second(flipped, "test").equal(second(plain, "test")));
  write_bytes(folder_ / ("data/flowers-102/" + part(plain, "train")->sample_name(0)), {});
  EXPECT_FALSE(part(run({{"on_corrupt", "skip"}}), "train")->sample(0, 0));
}

TEST_F(Flowers102, SeedUseAndFingerprintDependOnOptionsAndFiles) {
  const auto plain = create(), augmented = create({{"augment", {{"horizontal_flip", 0.5}}}});
  EXPECT_FALSE((*plain)->uses_seed());
  EXPECT_TRUE((*augmented)->uses_seed());
  EXPECT_EQ((*plain)->fingerprint().size(), 64u);
  const std::string before = (*plain)->fingerprint();
  EXPECT_EQ(before, (*augmented)->fingerprint());
  write_bytes(folder_ / "data/flowers-102/jpg/image_00001.jpg", {1, 2, 3});
  EXPECT_NE((*create())->fingerprint(), before);
}

TEST_F(Flowers102, ErrorsPointToTheRootOption) {
  std::filesystem::remove(folder_ / "data/flowers-102/setid.mat");
  EXPECT_REFUSED(errors({}), kMissingAnnotations, "/data/root");
}

TEST_F(Flowers102, CaptionsUseClassNames) {
  const auto outputs =
      run({{"image_size", 8}, {"caption", "a photo of a {name}, a type of flower"}});
  const auto train = part(outputs, "train");
  ASSERT_EQ(train->describe().captions.size(), 3u);
  EXPECT_EQ(train->describe().captions[2], "a photo of a disc, a type of flower");
  EXPECT_EQ(train->captions(), train->labels());
  EXPECT_EQ(part(outputs, "test")->captions(), part(outputs, "test")->labels());
  expect_asked_as_captioned("a photo of a {name}.", {{"image_size", 8}});
}

}  // namespace
}  // namespace stages
