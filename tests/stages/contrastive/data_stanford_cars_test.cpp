#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/contrastive/data_stanford_cars.h"
#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::Contains;
using testing::ElementsAre;

class StanfordCars : public ImageStageTest {
 protected:
  StanfordCars() : ImageStageTest(kDataStanfordCars) {}
  void SetUp() override {
    make_stanford_cars(data(), {.classes = 4, .per_class = 20, .size = 24, .seed = 3});
  }
};

TEST_F(StanfordCars, HoldsOutTheSameShareOfEachClass) {
  const auto outputs = run({{"image_size", 8}, {"validation", 0.3}, {"split_seed", 42}});
  EXPECT_THAT(context_.said,
              Contains("4 classes; 28 images for training, 12 for validation, 40 for test"));
  std::vector<int> counts(4);
  for (const std::int64_t label : part(outputs, "validation")->labels())
    ++counts[static_cast<std::size_t>(label)];
  EXPECT_THAT(counts, ElementsAre(3, 3, 3, 3));
}

TEST_F(StanfordCars, FoldsDivideTheTrainingImages) {
  const auto outputs = run({{"image_size", 8}, {"folds", {{"count", 2}, {"index", 1}}}});
  EXPECT_THAT(context_.said,
              Contains("4 classes; 20 images for training, 20 for validation, 40 for test"));
  const auto labels = part(outputs, "validation")->labels();
  for (const std::int64_t label : {0, 1, 2, 3}) EXPECT_EQ(std::ranges::count(labels, label), 5);
}

TEST_F(StanfordCars, HeldOutImagesDependOnlyOnTheSeed) {
  const auto held = [&](int seed) {
    return names(*part(run({{"validation", 0.3}, {"split_seed", seed}}), "validation"));
  };
  const auto first = held(42);
  context_.facts.seed = 7;
  EXPECT_EQ(held(42), first);
  EXPECT_NE(held(43), first);
}

TEST_F(StanfordCars, CaptionsContainMakerModelAndYearByDefault) {
  const auto outputs = run({{"image_size", 8}});
  const auto test = part(outputs, "test");
  EXPECT_THAT(test->describe().captions,
              ElementsAre("a photo of a AM General Stripes Horizontal Sedan 2000 car",
                          "a photo of a AM General Stripes Vertical Coupe 2001 car",
                          "a photo of a AM General Disc SUV 2002 car",
                          "a photo of a Aston Martin Frame Sedan 2003 car"));
  EXPECT_EQ(test->captions(), test->labels());
}

TEST_F(StanfordCars, ClassesThatShareACaptionAreCounted) {
  run({{"image_size", 8}});
  const auto shared = testing::HasSubstr(" share a caption with another class");
  EXPECT_THAT(context_.said, testing::Not(testing::Contains(shared)));
  run({{"image_size", 8}, {"caption", "a {make}"}});
  EXPECT_THAT(context_.said, testing::Contains("3 of 4 classes share a caption with another class, "
                                               "such as 'a AM General'"));
}

TEST_F(StanfordCars, MakerLabelsKeepTheModelCaptions) {
  const auto outputs =
      run({{"image_size", 8}, {"labels", "make"}, {"caption", {"a {name}", "the {year} {make}"}}});
  const auto train = part(outputs, "train");
  EXPECT_THAT(train->describe().classes, ElementsAre("AM General", "Aston Martin"));
  EXPECT_EQ(train->describe().captions.size(), 8u);
  const std::vector<std::string> all = captions(*train);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 4u);
  std::set<std::string> drawn;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch)
    drawn.insert(caption(*to_train_on(outputs), epoch, 0));
  EXPECT_EQ(drawn.size(), 2u);
}

TEST_F(StanfordCars, ZeroShotUsesTheClassWordsOfCaptions) {
  expect_asked_as_captioned("a photo of a {name}.", {{"image_size", 8}});
}

TEST_F(StanfordCars, CropsToTheBox) {
  const Json plain = {{"normalize", {{"mean", {0, 0, 0}}, {"std", {1, 1, 1}}}}, {"image_size", 15}};
  Json cropped = plain;
  cropped["crop_to_box"] = true;
  const auto whole = part(run(plain), "test"), boxes = part(run(cropped), "test");
  // A box of 15 pixels is not resized: it is a window of the image.
  EXPECT_FALSE(image(*whole).equal(image(*boxes)));
  EXPECT_EQ(whole->sample_name(3), boxes->sample_name(3));
}

TEST_F(StanfordCars, UnknownFieldIsRejectedAndKnownOnesAreListed) {
  EXPECT_REFUSED(errors({{"caption", "a {brand}"}}), kNotAllowedValue, "/data/caption",
                 "a {brand}");
  EXPECT_EQ(create({{"caption", "a {brand}"}}).errors().front().help,
            "fields are {name}, {make}, {model}, {year}; write a literal brace as {{ or }}");
}

TEST_F(StanfordCars, MissingTestLabelsOnlyPreventTesting) {
  std::filesystem::remove(data() / "cars_test_annos_withlabels.mat");
  EXPECT_REFUSED(run({{"image_size", 8}}), kMissingAnnotations, "/root",
                 "cars_test_annos_withlabels.mat");
  context_.facts.wanted = {{"train", "validation"}};
  const auto outputs = run({{"image_size", 8}});
  EXPECT_EQ(part(outputs, "train")->describe().size, 36);
  EXPECT_EQ(part(outputs, "validation")->describe().size, 4);
  EXPECT_THAT(context_.said, Contains(testing::StartsWith("there are no test images: ")));
}

}  // namespace
}  // namespace stages
