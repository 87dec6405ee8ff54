#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/stage/keeper.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/data/image.h"
#include "stages/few_shot/make_mini_imagenet.h"
#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class FewShot : public ImageStageTest {
 protected:
  FewShot() : ImageStageTest(kDataFewShot) {}
  void SetUp() override {
    make_mini_imagenet(data(), {.classes = 8, .per_class = 5, .size = 24, .seed = 3});
  }
};

TEST_F(FewShot, EachPartHasItsOwnClasses) {
  const auto outputs = run({{"image_size", 16}});
  EXPECT_THAT(context_.said, ElementsAre("train: 20 images of 4 classes, from base.json",
                                         "validation: 10 images of 2 classes, from val.json",
                                         "test: 10 images of 2 classes, from novel.json"));
  const auto test = part(outputs, "test");
  EXPECT_EQ(test->describe().size, 10);
  EXPECT_THAT(test->describe().classes, SizeIs(2));
  EXPECT_THAT(test->labels(), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_EQ(label(*test, 9), 1);
  EXPECT_THAT(test->sample_name(9), testing::StartsWith("Dataset/" + test->describe().classes[1] +
                                                        "/" + test->describe().classes[1]));
  EXPECT_THAT(image(*test).sizes(), ElementsAre(3, 16, 16));
  EXPECT_THAT(part(outputs, "validation")->labels(), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1));
}

/// The parameter: whether the data has the second part.
class FewShotDivision : public FewShot, public testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(, FewShotDivision, testing::Bool());

TEST_P(FewShotDivision, AddingClassesMovesNoClass) {
  Json options = {{"train", "Dataset"},
                  {"validation", "Dataset"},
                  {"test", "Dataset"},
                  {"classes", "alternating"}};
  if (!GetParam()) options["validation"] = nullptr;
  const auto names_of = [&](const runner::Outputs& outputs) {
    std::map<std::string, std::vector<std::string>> names;
    for (const char* const port : {"train", "validation", "test"}) {
      if (!GetParam() && port == std::string("validation")) continue;
      const auto data = part(outputs, port);
      for (std::int64_t i = 0; i < data->describe().size; ++i)
        names[port].push_back(std::to_string(data->labels()[static_cast<std::size_t>(i)]) + " " +
                              data->sample_name(i));
    }
    return names;
  };
  const auto first = create(options);
  ASSERT_TRUE(first);
  const auto before = names_of((*first)->run(runner::Inputs({}), context_));
  const DrawingFolder run_folder;
  write_bytes(runner::NodeLayout(run_folder.path()).division(),
              {context_.division.begin(), context_.division.end()});
  folder_.add("data/Dataset/0_first/1.jpg");  // every later class would move to another part
  const auto anew = names_of(run(options));
  EXPECT_NE(anew, before);
  context_.facts.earlier = run_folder.path();
  context_.said.clear();
  EXPECT_EQ(names_of(run(options)), before);
  EXPECT_EQ(context_.said.front(),
            "1 image has been added since the run started, so no part contains them: "
            "'Dataset/0_first/1.jpg'; a new run would use them");
}

TEST_F(FewShot, UnpublishedCountsAreReported) {
  run({{"image_size", 16},
       {"published", {{"train", {64, 38400}}, {"validation", {2, 10}}, {"test", {2, 12}}}}});
  EXPECT_THAT(
      context_.said,
      ElementsAre(
          "train: 20 images of 4 classes, from base.json",
          "train: 4 classes and 20 images instead of the published 64 and 38400: results cannot be "
          "compared with published ones",
          "validation: 10 images of 2 classes, from val.json",
          "test: 10 images of 2 classes, from novel.json",
          "test: 2 classes and 10 images instead of the published 2 and 12: results cannot be "
          "compared with published ones"));
}

TEST_F(FewShot, PartsThatShareACacheDoNotMixImages) {
  const Json cached = {{"image_size", 16}, {"cache_mib", 64}}, plain = {{"image_size", 16}};
  const auto with = run(cached), without = run(plain);
  for (int pass = 0; pass < 2; ++pass) {
    for (const char* const port : {"train", "validation", "test"})
      EXPECT_TRUE(image(*part(with, port)).equal(image(*part(without, port)))) << port;
  }
}

TEST_F(FewShot, CacheUsesOnlyWhatThePlansLeave) {
  constexpr std::int64_t kOne = 3 * 16 * 16 + ImageCache::kOverhead;
  const auto keeper = [](const Dataset& data) -> const runner::Keeper& {
    return dynamic_cast<const runner::Keeper&>(data);
  };
  const auto fixed = run({{"image_size", 16}, {"cache_mib", 1}}), left = run({{"image_size", 16}});
  EXPECT_EQ(keeper(*part(fixed, "train")).could_keep(), 20 * kOne);
  EXPECT_EQ(keeper(*part(fixed, "test")).could_keep(), 10 * kOne);
  EXPECT_EQ(keeper(*part(left, "train")).could_keep(), 20 * kOne);
  const at::Tensor fixed_before = image(*part(fixed, "train")),
                   before = image(*part(left, "train"));
  const auto train = part(left, "train");
  std::filesystem::rename(data() / train->sample_name(0), data() / "moved.jpg");
  EXPECT_TRUE(image(*part(fixed, "train")).equal(fixed_before))
      << "an explicit limit applies immediately";
  EXPECT_THROW(image(*train), runner::StageError) << "the cache has no memory yet";
  std::filesystem::rename(data() / "moved.jpg", data() / train->sample_name(0));
  for (const auto& data : {train, part(fixed, "train")}) {
    keeper(*data).allow({.memory = kOne});
    EXPECT_TRUE(image(*data).equal(before));
  }
  std::filesystem::remove(data() / train->sample_name(0));
  for (const auto& data : {train, part(fixed, "train")}) {
    EXPECT_TRUE(image(*data).equal(before));
    keeper(*data).allow({});
    EXPECT_THROW(image(*data), runner::StageError);
  }
}

TEST_F(FewShot, AugmentsOnlyTraining) {
  const auto outputs =
      run({{"image_size", 16}, {"augment", {{"random_resized_crop", Json::object()}}}});
  EXPECT_TRUE(to_train_on(outputs)->describe().augmented);
  EXPECT_FALSE(image(*to_train_on(outputs), 0).equal(image(*to_train_on(outputs), 1)));
  for (const char* const port : {"train", "validation", "test"}) {
    EXPECT_FALSE(part(outputs, port)->describe().augmented);
    EXPECT_TRUE(image(*part(outputs, port), 0).equal(image(*part(outputs, port), 1)));
  }
  EXPECT_TRUE((*create({{"augment", {{"horizontal_flip", 0.5}}}}))->uses_seed());
  EXPECT_FALSE((*create())->uses_seed());
}

TEST_F(FewShot, ValidationIsOptional) {
  const auto outputs = run({{"validation", nullptr}});
  EXPECT_EQ(part(outputs, "validation"), nullptr);
  EXPECT_THAT(context_.said, SizeIs(2));
}

TEST_F(FewShot, OrderOfAListHasNoEffect) {
  const auto first = names(*part(run(), "test"));
  std::ifstream file(data() / "novel.json");
  Json list = Json::parse(file);
  std::reverse(list["image_names"].begin(), list["image_names"].end());
  std::reverse(list["image_labels"].begin(), list["image_labels"].end());
  std::ofstream(data() / "novel.json") << list;
  EXPECT_EQ(names(*part(run(), "test")), first);
}

TEST_F(FewShot, FingerprintCoversAllLists) {
  const std::string before = (*create())->fingerprint();
  EXPECT_EQ((*create())->fingerprint(), before);
  std::filesystem::copy_file(data() / "novel.json", data() / "same.json");
  EXPECT_EQ((*create({{"train", {"gone.json", "base.json"}}}))->fingerprint(), before);
  std::ofstream(data() / "novel.json", std::ios::app) << "\n";
  EXPECT_NE((*create())->fingerprint(), before);
}

TEST_F(FewShot, BirdsAreSplitByFolder) {
  for (int bird = 1; bird <= 8; ++bird) {
    const std::string name = "00" + std::to_string(bird) + ".Bird";
    for (const char* image : {"/1.jpg", "/2.jpg"})
      folder_.add("birds/CUB_200_2011/images/" + name + image);
  }
  const char* const images = "CUB_200_2011/images";
  const Json options = {{"root", (folder_ / "birds").string()},
                        {"train", {"base.json", images}},
                        {"validation", {"val.json", images}},
                        {"test", images},
                        {"classes", "alternating"}};
  const auto outputs = run(options);
  EXPECT_EQ(part(outputs, "train")->describe().size, 8);
  EXPECT_THAT(part(outputs, "validation")->describe().classes, SizeIs(2));
  EXPECT_THAT(part(outputs, "test")->describe().classes[0], testing::StartsWith("004."));
  EXPECT_EQ(context_.said.back(), "test: 4 images of 2 classes, from CUB_200_2011/images");
}

TEST_F(FewShot, ErrorsPointToTheirOptions) {
  const std::string root = data().string();
  EXPECT_ALL_REFUSED(
      errors(
          {{"train", "all.json"}, {"test", "gone.json"}, {"validation", {"no.csv", "base.mat"}}}),
      {kMissingAnnotations, "/data/validation", {"no.csv", "base.mat"}},
      {kMissingAnnotations, "/data/test", {"gone.json"}});
  EXPECT_REFUSED(errors({{"root", "gone"}}), kMissingFolder, "/data/root", "gone");
}

TEST_F(FewShot, ImagesInOtherFormatsAreAnErrorUnlessSkipped) {
  folder_.add("photos/train/a/1.jpg");
  folder_.add("photos/test/b/1.jpg", 1);
  folder_.add("photos/train/a/2.gif", 2);
  folder_.add("photos/train/a/notes.txt", 2);
  Json options = {{"root", (folder_ / "photos").string()},
                  {"train", "train"},
                  {"validation", nullptr},
                  {"test", "test"}};
  EXPECT_REFUSED(errors(options), kUnsupportedImage, "/data/train",
                 (folder_ / "photos/train").string(), "1 .gif");
  options["on_corrupt"] = "skip";
  run(options);
  EXPECT_THAT(context_.said, testing::Contains("train: 2 files ignored: 1 .gif, 1 .txt"));
}

}  // namespace
}  // namespace stages
