#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/artifact/label_sets.h"
#include "stages/artifact/targets.h"
#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class ImageTableStage : public ImageStageTest {
 protected:
  ImageTableStage() : ImageStageTest(kDataImageTable) {}
  /// The published listing's columns and folders, at a small scale.
  void SetUp() override {
    std::string text = "image_path,image_filename,make,model,year,index\n";
    for (int i = 0; i < 30; ++i) {
      const std::string name = "car_0000" + std::to_string(10 + i) + ".jpg";
      folder_.add("data/car_images/" + name, static_cast<std::uint64_t>(i), 20, 16);
      const std::string make = i < 2 ? "Lada" : i % 2 == 0 ? "Toyota" : "Kia";
      text += "car_images/" + name + "," + name + "," + make + "," +
              (i % 3 == 0 ? "Camry" : "Rio") + ",2015.0," + std::to_string(10 + i) + "\n";
    }
    write(text);
  }
  void write(const std::string& text) const {
    write_bytes(data() / "data/image_labels_filtered.csv", {text.begin(), text.end()});
  }
  Json listing(Json options = Json::object()) const {
    Json all = {{"table", (data() / "data/image_labels_filtered.csv").string()},
                {"label", "make"},
                {"caption", "a photo of a {make} {model} car"},
                {"minimum_per_class", 10},
                {"image_size", 8},
                {"split", {{"train", 0.64}, {"validation", 0.16}, {"test", 0.2}, {"seed", 42}}}};
    all.update(options);
    return all;
  }
};

TEST_F(ImageTableStage, ReadsThePublishedListing) {
  const auto outputs = run(listing());
  EXPECT_THAT(
      context_.said,
      ElementsAre("2 classes; 18 images for training, 4 for validation, 6 for test",
                  "1 class with fewer than 10 images is left out, dropping 2 images: 'Lada' has 2",
                  "4 captions; the first is 'a photo of a Toyota Rio car'"));
  const auto train = part(outputs, "train");
  EXPECT_THAT(train->describe().classes, ElementsAre("Kia", "Toyota"));
  EXPECT_THAT(caption(*train, 0, 0), testing::StartsWith("a photo of a "));
  EXPECT_EQ(captions(*train).front(), caption(*train, 3, 0));
  EXPECT_EQ(part(outputs, "validation")->describe().size, 4);
}

TEST_F(ImageTableStage, ClassHasTheCaptionsOfAllItsImages) {
  const auto test = part(
      run(listing({{"split", {{"train", 0.9}, {"validation", 0}, {"test", 0.1}, {"seed", 42}}}})),
      "test");
  const std::vector<std::string> tested = captions(*test);
  ASSERT_LT(std::set(tested.begin(), tested.end()).size(), 4u);
  std::vector<std::set<std::string>> texts;
  for (const auto& captions : test->captions_of_classes()) {
    texts.emplace_back();
    for (const std::int64_t caption : captions)
      texts.back().insert(test->describe().captions.at(static_cast<std::size_t>(caption)));
  }
  EXPECT_THAT(
      texts,
      ElementsAre(ElementsAre("a photo of a Kia Camry car", "a photo of a Kia Rio car"),
                  ElementsAre("a photo of a Toyota Camry car", "a photo of a Toyota Rio car")));
  EXPECT_TRUE(part(run(listing({{"caption", nullptr}})), "test")->captions_of_classes().empty());
}

TEST_F(ImageTableStage, ImagesCanHaveAnyNumberOfLabels) {
  std::string text = "image_path,index,tags\n";
  for (int i = 0; i < 30; ++i)
    text += "car_images/car_0000" + std::to_string(10 + i) + ".jpg," + std::to_string(i) +
            (i % 3 == 0   ? ",red\n"
             : i % 3 == 1 ? ",red; old\n"
                          : ",\n");
  write(text);
  const Json labels = {
      {"column", "tags"}, {"separator", ";"}, {"columns", nullptr}, {"empty", "none"}};
  const Json options = listing({{"label", nullptr},
                                {"labels", labels},
                                {"caption", nullptr},
                                {"minimum_per_class", 1},
                                {"split", {{"train", 0.6}, {"validation", 0.2}, {"test", 0.2}}}});
  const auto outputs = run(options);
  EXPECT_EQ(context_.said.front(),
            "2 labels; 18 images for training, 6 for validation, 6 for test");
  const auto train = part(outputs, "train");
  EXPECT_TRUE(has_label_sets(train->describe()));
  EXPECT_THAT(train->describe().classes, ElementsAre("old", "red"));
  EXPECT_THAT(train->labels(), testing::IsEmpty());
  EXPECT_EQ(label_counts(*train).front(), 6) << "split by the rarest label of each image";
  std::vector<std::int64_t> counts(2);
  for (std::int64_t i = 0; i < train->describe().size; ++i) {
    const NamedTensors sample = *train->sample(0, i);
    EXPECT_FALSE(sample.contains("label"));
    for (std::int64_t label = 0; label < 2; ++label)
      counts[static_cast<std::size_t>(label)] += sample.at("labels")[label].item<std::int64_t>();
  }
  EXPECT_EQ(counts, label_counts(*train));
}

TEST_F(ImageTableStage, ImagesCanHaveNumericTargets) {
  const Json options = listing({{"label", nullptr},
                                {"target", {"index", "year"}},
                                {"minimum_per_class", 1},
                                {"split", {{"train", 0.6}, {"validation", 0.2}, {"test", 0.2}}}});
  const auto outputs = run(options);
  EXPECT_EQ(context_.said.front(),
            "2 targets; 18 images for training, 6 for validation, 6 for test");
  const auto train = part(outputs, "train");
  EXPECT_TRUE(has_targets(train->describe()));
  EXPECT_THAT(train->describe().classes, ElementsAre("index", "year"));
  EXPECT_THAT(train->labels(), testing::IsEmpty());
  const at::Tensor known = known_targets(*train);
  EXPECT_EQ(known.sizes(), at::IntArrayRef({18, 2}));
  for (std::int64_t i = 0; i < 18; ++i) {
    const NamedTensors sample = *train->sample(0, i);
    EXPECT_FALSE(sample.contains("label"));
    EXPECT_TRUE(sample.at("target").equal(known[i]));
    EXPECT_EQ(train->sample_name(i),
              "car_images/car_0000" + std::to_string(known[i][0].item<std::int64_t>()) + ".jpg");
  }
}

TEST_F(ImageTableStage, NonNumericTargetIsRejectedWithItsLine) {
  const auto with = [&](const std::string& field) {
    write("image_path,age\ncar_images/car_000010.jpg,1e2\ncar_images/car_000011.jpg," + field +
          "\n");
    return errors(listing(
        {{"label", nullptr}, {"target", "age"}, {"caption", nullptr}, {"minimum_per_class", 1}}));
  };
  EXPECT_REFUSED(with(""), kBadAnnotations, "/data/table", "line 3: its column 'age' is empty", "");
  for (const std::string& field : {"old", "nan", "inf", "1e999", "3;5", "0x10", "+-2"})
    EXPECT_REFUSED(with(field), kBadAnnotations, "/data/table", "'age' is '" + field + "'", "");
  EXPECT_REFUSED(with("3\ncar_images/car_000012.jpg"), kBadAnnotations, "/data/table", "line 4",
                 "");
}

TEST_F(ImageTableStage, DuplicateTargetColumnIsRejected) {
  write("image_path,age,age\ncar_images/car_000010.jpg,1,2\n");
  EXPECT_REFUSED(
      errors(listing(
          {{"label", nullptr}, {"target", "age"}, {"caption", nullptr}, {"minimum_per_class", 1}})),
      kBadAnnotations, "/data/table", "lists the column 'age' twice", "");
}

TEST_F(ImageTableStage, UnknownLabelIsRejectedWithItsLine) {
  write("image_path,tags\ncar_images/car_000010.jpg,red\ncar_images/car_000011.jpg,\n");
  const auto with = [&](const Json& labels) {
    return errors(listing(
        {{"label", nullptr}, {"labels", labels}, {"caption", nullptr}, {"minimum_per_class", 1}}));
  };
  const Json labels = {
      {"column", "tags"}, {"separator", "|"}, {"columns", nullptr}, {"empty", "error"}};
  EXPECT_REFUSED(with(labels), kBadAnnotations, "/data/table", "line 3", "labels.empty: none");
  Json columns = labels;
  columns["column"] = nullptr;
  columns["columns"] = {"tags", "age"};
  EXPECT_REFUSED(with(columns), kNotAllowedValue, "/data/labels/columns", "'age'");
}

TEST_F(ImageTableStage, SplitDependsOnItsSeed) {
  const auto tested = [&](int seed) {
    return names(*part(run(listing({{"split", {{"seed", seed}}}})), "test"));
  };
  const auto first = tested(1);
  context_.facts.seed = 9;
  EXPECT_EQ(tested(1), first);
  EXPECT_NE(tested(2), first);
  EXPECT_FALSE((*create(listing()))->uses_seed());
  EXPECT_TRUE((*create(listing({{"split", {{"seed", nullptr}}}})))->uses_seed());
}

TEST_F(ImageTableStage, ErrorsPointToTheirOptions) {
  EXPECT_ALL_REFUSED(errors(listing({{"label", "maker"}, {"caption", "a {modle}"}})),
                     {kNotAllowedValue, "/data/label"}, {kNotAllowedValue, "/data/caption"});
  write("image_path,make\n");
  EXPECT_REFUSED(errors(listing({{"caption", nullptr}})), kBadAnnotations, "/data/table");
}

TEST_F(ImageTableStage, FingerprintCoversTheTable) {
  const std::string before = (*create(listing()))->fingerprint();
  EXPECT_EQ((*create(listing()))->fingerprint(), before);
  std::string text = folder_.read("data/data/image_labels_filtered.csv");
  text.replace(text.find("Camry"), 5, "Prius");
  write(text);
  EXPECT_NE((*create(listing()))->fingerprint(), before);
}

TEST_F(ImageTableStage, ThereAreNoCaptionsByDefault) {
  const auto train = part(run(listing({{"caption", nullptr}})), "train");
  EXPECT_TRUE(train->describe().captions.empty());
  EXPECT_FALSE(train->sample(0, 0)->contains("caption"));
}

}  // namespace
}  // namespace stages
