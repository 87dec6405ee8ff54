#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/adapters/made_datasets.h"
#include "stages/data/image.h"
#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;

class Cub200 : public ImageStageTest {
 protected:
  Cub200() : ImageStageTest(kDataCub200) {}
  void SetUp() override {
    make_cub200(data(), {.classes = 3, .per_class = 20, .size = 40, .seed = 3});
  }
  std::filesystem::path set(const std::string& below) const {
    return data() / "CUB_200_2011" / below;
  }
};

TEST_F(Cub200, HoldsOutTheSameShareOfEachClass) {
  const auto outputs = run({{"validation", 0.3}, {"split_seed", 42}});
  EXPECT_THAT(context_.said,
              ElementsAre("3 classes; 21 images for training, 9 for validation, 30 for test"));
  std::vector<int> counts(3);
  for (std::int64_t i = 0; i < 9; ++i)
    ++counts[static_cast<std::size_t>(label(*part(outputs, "validation"), i))];
  EXPECT_THAT(counts, ElementsAre(3, 3, 3));
  EXPECT_THAT(part(outputs, "train")->describe().classes,
              ElementsAre("Stripes horizontal", "Stripes vertical", "Disc"));
}

TEST_F(Cub200, HeldOutImagesDependOnlyOnTheSeed) {
  const auto held = [&](Json options) {
    options["validation"] = 0.3;
    return names(*part(run(std::move(options)), "validation"));
  };
  const auto first = held({{"split_seed", 42}});
  context_.facts.seed = 7;
  EXPECT_EQ(held({{"split_seed", 42}}), first);
  EXPECT_NE(held({{"split_seed", 43}}), first);
  const auto of_the_run = held({{"split_seed", nullptr}}), by_default = held(Json::object());
  context_.facts.seed = 8;
  EXPECT_NE(held({{"split_seed", nullptr}}), of_the_run);
  EXPECT_EQ(held(Json::object()), by_default);
}

TEST_F(Cub200, PartsAreDisjointAndTheTestSetIsUnchanged) {
  const auto outputs = run({{"validation", 0.3}}), none = run({{"validation", 0.0}});
  std::set<std::string> all;
  for (const char* const port : {"train", "validation", "test"}) {
    for (const std::string& name : names(*part(outputs, port)))
      EXPECT_TRUE(all.insert(name).second) << name;
  }
  EXPECT_EQ(all.size(), 60u);
  EXPECT_EQ(part(none, "validation"), nullptr);
  EXPECT_EQ(names(*part(none, "test")), names(*part(outputs, "test")));
  EXPECT_EQ(part(none, "train")->describe().size, 30);
}

TEST_F(Cub200, FoldsDivideTheTrainingImagesAndKeepTheTestSet) {
  const auto whole = run({{"validation", 0.0}});
  std::set<std::string> validated;
  for (const int index : {0, 1, 2}) {
    const auto outputs = run({{"folds", {{"count", 3}, {"index", index}}}});
    EXPECT_EQ(names(*part(outputs, "test")), names(*part(whole, "test")));
    const auto own = names(*part(outputs, "validation"));
    EXPECT_EQ(static_cast<std::int64_t>(own.size()) + part(outputs, "train")->describe().size, 30);
    for (const std::string& name : own) EXPECT_TRUE(validated.insert(name).second) << name;
  }
  EXPECT_EQ(validated.size(), 30u);
  const Json folds = {{"count", 3}, {"index", 0}};
  EXPECT_FALSE((*create({{"validation", 0.0}, {"folds", folds}}))->uses_seed());
  EXPECT_TRUE(
      (*create({{"validation", 0.0}, {"split_seed", nullptr}, {"folds", folds}}))->uses_seed());
}

TEST_F(Cub200, SeedUseAndFingerprintDependOnOptionsAndFiles) {
  EXPECT_FALSE((*create())->uses_seed());
  EXPECT_TRUE((*create({{"split_seed", nullptr}}))->uses_seed());
  EXPECT_FALSE((*create({{"validation", 0.0}}))->uses_seed());
  EXPECT_TRUE(
      (*create({{"split_seed", 42}, {"augment", {{"horizontal_flip", 0.5}}}}))->uses_seed());
  const std::string before = (*create())->fingerprint();
  write_bytes(set("classes.txt"), {'1', ' ', 'a', '\n', '2', ' ', 'b', '\n', '3', ' ', 'c', '\n'});
  EXPECT_NE((*create())->fingerprint(), before);
}

/// A black image with a white box of 10 x 12 pixels at (20, 5).
Image boxed_image() {
  Image image(48, 40);
  for (int y = 5; y < 17; ++y) std::fill_n(image.row(y) + 3 * 20, 3 * 10, std::uint8_t{255});
  return image;
}

/// A dataset in which the first image of one part is boxed_image().
class BoxedCub200 : public Cub200 {
 protected:
  std::shared_ptr<const Dataset> with_box(const std::string& port, const std::string& box,
                                          const Json& augment = Json::object()) {
    const Json options = {{"image_size", 8},
                          {"split_seed", 1},
                          {"crop_to_box", true},
                          {"augment", augment},
                          {"normalize", {{"mean", {0, 0, 0}}, {"std", {1, 1, 1}}}}};
    name_ = part(run(options), port)->sample_name(0);
    const Image boxed = boxed_image();
    write_bytes(set(name_), encode_png(boxed.width, boxed.height, boxed.pixels.data()));
    const std::string images = file_text(set("images.txt"));
    const std::string above =
        "\n" + images.substr(0, images.find(name_.substr(std::string("images/").size())));
    const std::string number = above.substr(above.rfind('\n') + 1);
    std::string boxes = file_text(set("bounding_boxes.txt"));
    const std::size_t at = ("\n" + boxes).find("\n" + number);
    boxes.replace(at, boxes.find('\n', at) - at, number + box);
    write_bytes(set("bounding_boxes.txt"), {boxes.begin(), boxes.end()});
    return part(run(options), port);
  }
  std::string name_;
};

TEST_F(BoxedCub200, CropsToTheBox) {
  EXPECT_EQ(image(*with_box("test", "20.0 5.0 10.0 12.0")).min().item<float>(), 1);
  EXPECT_LT(image(*with_box("test", "18.0 5.0 12.0 12.0")).min().item<float>(), 1);
}

TEST_F(BoxedCub200, BoxIsClippedToTheImage) {
  EXPECT_EQ(image(*with_box("test", "-5.0 -5.0 25.0 400.0")).max().item<float>(), 0);
  EXPECT_GT(image(*with_box("test", "-5.0 -5.0 400.0 400.0")).max().item<float>(), 0);
}

TEST_F(BoxedCub200, AugmentationStaysInsideTheBox) {
  const auto train =
      with_box("train", "20.0 5.0 10.0 12.0", {{"random_resized_crop", {{"scale", {0.05, 1.0}}}}});
  for (std::int64_t epoch = 0; epoch < 20; ++epoch)
    EXPECT_EQ(image(*train, epoch).min().item<float>(), 1) << epoch;
}

TEST_F(BoxedCub200, BoxOutsideTheImageIsAnErrorWithTheFileName) {
  const auto test = with_box("test", "48.0 0.0 10.0 10.0");
  EXPECT_REFUSED(image(*test), kBadAnnotations, "/data/root", name_, "10 x 10 at 48, 0", "48 x 40");
}

TEST_F(Cub200, GrayscaleFilesGetThreeEqualChannels) {
  const auto outputs =
      run({{"image_size", 16}, {"normalize", {{"mean", {0, 0, 0}}, {"std", {1, 1, 1}}}}});
  int gray = 0, colored = 0;
  for (const char* const port : {"train", "test"}) {
    const auto data = part(outputs, port);
    for (std::int64_t i = 0; i < data->describe().size; ++i) {
      const at::Tensor pixels = image(*data, 0, i);
      (pixels[0].equal(pixels[1]) && pixels[1].equal(pixels[2]) ? gray : colored) += 1;
    }
  }
  EXPECT_GE(gray, 9);  // of twelve, three of which may be held out
  EXPECT_GT(colored, 30);
}

TEST_F(Cub200, CaptionsUseClassNames) {
  const auto outputs = run({{"image_size", 8}, {"caption", "a photo of a {name}, a type of bird"}});
  const auto validation = part(outputs, "validation");
  EXPECT_EQ(validation->describe().captions[0], "a photo of a Stripes horizontal, a type of bird");
  EXPECT_EQ(validation->captions(), validation->labels());
  expect_asked_as_captioned("a photo of a {name}.", {{"image_size", 8}});
}

}  // namespace
}  // namespace stages
