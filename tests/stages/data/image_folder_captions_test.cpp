// Captions of images in folders.

#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/support/chance.h"
#include "tests/support/image_folder_fixture.h"
#include "tests/support/planning_context.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using ImageFolderCaptions = ImageFolder;

TEST_F(ImageFolderCaptions, CaptionsUseFolderNames) {
  folder_.add("data/colts-foot/1.jpg", 1);
  folder_.add("data/wind_flower/1.jpg", 2);
  const auto outputs = run({{"image_size", 8},
                            {"caption", "a photo of a {name}"},
                            {"split", {{"train", 1}, {"test", 0}}}});
  const auto train = part(outputs, "train");
  EXPECT_THAT(train->describe().captions,
              ElementsAre("a photo of a colts foot", "a photo of a wind flower"));
  EXPECT_THAT(train->captions(), ElementsAre(0, 1));
  EXPECT_EQ(caption(*train, 0, 1), "a photo of a wind flower");
  const TensorSpec spec = train->describe().tensors.back();
  EXPECT_EQ(spec.name, "caption");
  EXPECT_THAT(spec.shape, IsEmpty());
  EXPECT_EQ(spec.dtype, at::kLong);
  EXPECT_FALSE(train->describe().augmented);
  EXPECT_THAT(context_.said,
              testing::Contains("2 captions; the first is 'a photo of a colts foot'"));
}

TEST_F(ImageFolderCaptions, ZeroShotUsesTheClassWordsOfCaptions) {
  folder_.add("data/black-eyed_susan/1.jpg", 1);
  folder_.add("data/wind_flower/1.jpg", 2);
  expect_asked_as_captioned("a photo of a {name}.",
                            {{"image_size", 8}, {"split", {{"train", 1}, {"test", 0}}}});
}

TEST_F(ImageFolderCaptions, SamplesHaveNoCaptionByDefault) {
  add_photos();
  const auto train = part(run({{"image_size", 8}}), "train");
  EXPECT_THAT(train->describe().captions, IsEmpty());
  EXPECT_THAT(train->captions(), IsEmpty());
  EXPECT_EQ(train->describe().tensors.size(), 2u);
  EXPECT_FALSE(train->sample(0, 0)->contains("caption"));
}

TEST_F(ImageFolderCaptions, TrainingDrawsACaptionAndEvaluationUsesTheFirst) {
  add_photos();
  const Json options = {{"image_size", 8}, {"caption", {"a {name}", "the {name}", "my {name}"}}};
  const auto outputs = run(options);
  const auto train = to_train_on(outputs), test = part(outputs, "test");
  std::map<std::string, int> drawn;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    for (std::int64_t i = 0; i < train->describe().size; ++i) {
      const std::string name =
          train->describe().classes.at(static_cast<std::size_t>(label(*train, i)));
      std::string text = caption(*train, epoch, i);
      ASSERT_TRUE(text.ends_with(" " + name)) << text;
      ++drawn[text.substr(0, text.find(' '))];
    }
    EXPECT_EQ(caption(*test, epoch, 0), "a c0");
    EXPECT_EQ(caption(*part(outputs, "train"), epoch, 0), "a c0");
  }
  for (const char* const word : {"a", "the", "my"})
    EXPECT_NEAR(drawn[word], 1600 / 3.0, count_error(1600, 1 / 3.0)) << word;
  EXPECT_THAT(captions(*test), ElementsAre("a c0", "a c0", "a c1", "a c1"));
  EXPECT_EQ(captions(*train).front(), "a c0");
  EXPECT_TRUE(train->describe().augmented);
  EXPECT_FALSE(test->describe().augmented);
  EXPECT_EQ(test->describe().captions, train->describe().captions);
}

TEST_F(ImageFolderCaptions, DrawnCaptionDependsOnTheSeed) {
  add_photos();
  const Json options = {
      {"image_size", 8}, {"caption", {"a {name}", "the {name}"}}, {"split", {{"seed", 1}}}};
  const auto drawn = [&] {
    const auto train = to_train_on(run(options));
    std::vector<std::string> result;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      for (std::int64_t i = 0; i < train->describe().size; ++i)
        result.push_back(caption(*train, epoch, i));
    }
    return result;
  };
  const auto first = drawn();
  EXPECT_EQ(drawn(), first);
  EXPECT_TRUE((*create(options))->uses_seed());
  EXPECT_FALSE((*create({{"caption", "a {name}"}, {"split", {{"seed", 1}}}}))->uses_seed());
  context_.facts.seed = 8;
  EXPECT_NE(drawn(), first);
}

TEST_F(ImageFolderCaptions, CaptionsDoNotChangePixels) {
  add_photos();
  const Json augment = {{"horizontal_flip", 0.5}, {"random_resized_crop", Json::object()}};
  const auto plain = to_train_on(run({{"image_size", 8}, {"augment", augment}}));
  const auto told = to_train_on(
      run({{"image_size", 8}, {"augment", augment}, {"caption", {"a {name}", "the {name}"}}}));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_TRUE(image(*told, epoch, 2).equal(image(*plain, epoch, 2)));
}

TEST_F(ImageFolderCaptions, CaptionWithAnUnknownFieldIsRejected) {
  add_photos();
  EXPECT_REFUSED(errors({{"caption", "a {nam}"}}), kNotAllowedValue, "/data/caption", "{nam}");
}

TEST_F(ImageFolderCaptions, ImagesToCreateArePlannedWithCaptions) {
  const auto stage = create({{"image_size", 16},
                             {"make", {{"classes", 3}, {"per_class", 5}, {"size", 16}}},
                             {"caption", "a {name}"}});
  ASSERT_TRUE(stage);
  PlanningContext planning;
  const auto planned = (*stage)->plan(runner::Inputs({}), planning);
  ASSERT_TRUE(planned);
  const auto made = (*stage)->run(runner::Inputs({}), context_);
  EXPECT_THAT(part(*planned, "train")->describe().captions,
              ElementsAre("a disc", "a stripes horizontal", "a stripes vertical"));
  EXPECT_EQ(captions(*part(made, "test")), captions(*part(*planned, "test")));
}

}  // namespace
}  // namespace stages
