#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/data/make_flowers102.h"
#include "stages/stages.h"
#include "tests/support/pictures.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

class Flowers102 : public testing::Test {
 protected:
  void SetUp() override { make_flowers102(folder_ / "data", {.classes = 3, .per_class = 8, .size = 20, .seed = 3}); }
  runner::Result<std::unique_ptr<runner::Stage>> create(Json options) {
    if (!options.contains("root")) options["root"] = (folder_ / "data").string();
    value_ = stage_options("data/flowers102", options.dump());
    runner::ConfigReader reader(value_, "/data");
    return kDataFlowers102.create(reader);
  }
  runner::Outputs run(Json options) {
    auto stage = create(std::move(options));
    EXPECT_TRUE(stage) << (stage ? "" : stage.errors().front().message);
    return (*stage)->run(runner::Inputs({}), context_);
  }
  static std::shared_ptr<const Dataset> part(const runner::Outputs& outputs, const std::string& name) {
    const auto found = outputs.find(name);
    return found == outputs.end() ? nullptr : std::static_pointer_cast<const Dataset>(found->second);
  }

  PictureFolder folder_;
  RecordingContext context_;
  runner::Value value_;
};

TEST_F(Flowers102, PutsOutThePublishedParts) {
  const auto outputs = run({{"image_size", 16}});
  EXPECT_THAT(context_.said, ElementsAre("3 classes; 6 images for training, 6 for validation, 12 for test"));
  const auto train = part(outputs, "train");
  EXPECT_EQ(train->describe().size, 6);
  EXPECT_THAT(train->describe().classes, ElementsAre("stripes_horizontal", "stripes_vertical", "disc"));
  EXPECT_EQ(train->sample(0, 0)->at("image").sizes(), (std::vector<std::int64_t>{3, 16, 16}));
  EXPECT_EQ(train->sample(0, 0)->at("label").item<std::int64_t>(), 0);
  EXPECT_EQ(part(outputs, "validation")->describe().size, 6);
  EXPECT_EQ(part(outputs, "test")->describe().size, 12);
}

TEST_F(Flowers102, OtherPartsTrainOnOthers) {
  const auto both = run({{"parts", "train_and_validation"}});
  EXPECT_EQ(part(both, "train")->describe().size, 12);
  EXPECT_EQ(part(both, "validation"), nullptr);
  const auto swapped = run({{"parts", "swapped"}});
  EXPECT_EQ(part(swapped, "train")->describe().size, 12);
  EXPECT_EQ(part(swapped, "validation")->describe().size, 6);
  EXPECT_EQ(part(swapped, "train")->sample_name(0), part(both, "test")->sample_name(0));
}

TEST_F(Flowers102, TakesTheOptionsOfImages) {
  const auto plain = run({{"image_size", 16}});
  const auto flipped = run({{"image_size", 16}, {"augment", {{"horizontal_flip", 1.0}}}, {"cache_mib", 1}});
  const auto image = [](const runner::Outputs& outputs, const char* port) {
    return part(outputs, port)->sample(0, 1)->at("image");
  };
  EXPECT_TRUE(image(flipped, "train").equal(image(plain, "train").flip(2)));
  EXPECT_TRUE(image(flipped, "test").equal(image(plain, "test")));
  write_bytes(folder_ / ("data/flowers-102/" + part(plain, "train")->sample_name(0)), {});
  EXPECT_FALSE(part(run({{"on_corrupt", "skip"}}), "train")->sample(0, 0));
}

TEST_F(Flowers102, TellsWhatItFoundAndWhetherTheSeedMatters) {
  const auto plain = create(Json::object()), augmented = create({{"augment", {{"horizontal_flip", 0.5}}}});
  EXPECT_FALSE((*plain)->uses_seed());
  EXPECT_TRUE((*augmented)->uses_seed());
  EXPECT_EQ((*plain)->fingerprint().size(), 64u);
  const std::string before = (*plain)->fingerprint();
  EXPECT_EQ(before, (*augmented)->fingerprint());
  write_bytes(folder_ / "data/flowers-102/jpg/image_00001.jpg", {1, 2, 3});
  EXPECT_NE((*create(Json::object()))->fingerprint(), before);
}

TEST_F(Flowers102, ErrorsStandAtTheRoot) {
  std::filesystem::remove(folder_ / "data/flowers-102/setid.mat");
  const auto stage = create({{"augment", {{"random_resized_crop", {{"scale", {0.5, 0.2}}}}}}});
  ASSERT_FALSE(stage);
  std::vector<std::string> pointers;
  for (const auto& error : stage.errors()) pointers.push_back(runner::name(error.code) + " " + error.pointer);
  EXPECT_THAT(pointers,
              testing::UnorderedElementsAre("E0611 /data/root", "E0314 /data/augment/random_resized_crop/scale"));
}

}  // namespace
}  // namespace stages
