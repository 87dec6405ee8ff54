// Images in several folders, and images of a group.

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/artifact/grouped_samples.h"
#include "stages/artifact/label_sets.h"
#include "tests/support/image_folder_fixture.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using ImageFolderLabels = ImageFolder;

TEST_F(ImageFolderLabels, MultiLabelGivesAnImageTheLabelsOfAllItsFolders) {
  // Writes 8 images to c0 alone, 6 to c1 alone, and 4 to both.
  for (int i = 0; i < 18; ++i) {
    const std::string name = std::to_string(100 + i) + ".jpg";
    if (i < 12) folder_.add("data/c0/" + name, static_cast<std::uint64_t>(i));
    if (i < 4 || i >= 12) folder_.add("data/c1/" + name, static_cast<std::uint64_t>(i));
  }
  Json options = {{"image_size", 16},
                  {"multi_label", true},
                  {"split", {{"train", 0.5}, {"validation", 0}, {"test", 0.5}}}};
  const auto outputs = run(options);
  EXPECT_THAT(context_.said,
              ElementsAre("2 labels; 9 images for training, 0 for validation, 9 for test",
                          "4 of 18 images are in more than one class folder"));
  const auto train = part(outputs, "train"), test = part(outputs, "test");
  EXPECT_TRUE(has_label_sets(train->describe()));
  EXPECT_THAT(train->labels(), IsEmpty());
  EXPECT_EQ(label_counts(*train).at(1), 5) << "split by the rarest label of each image";
  EXPECT_EQ(label_counts(*train).at(0) + label_counts(*test).at(0), 12);
  std::vector<std::int64_t> counts(2);
  for (std::int64_t i = 0; i < train->describe().size; ++i)
    for (std::int64_t label = 0; label < 2; ++label)
      counts[static_cast<std::size_t>(label)] +=
          train->sample(0, i)->at("labels")[label].item<std::int64_t>();
  EXPECT_EQ(counts, label_counts(*train));

  options["split"] = {{"train", 1.0}, {"validation", 0}, {"test", 0}};
  options["folds"] = {{"count", 2}, {"index", 1}};
  EXPECT_EQ(label_counts(*part(run(options), "validation")).at(1), 5);
}

TEST_F(ImageFolderLabels, MultiLabelRejectsDifferentImagesWithTheSameName) {
  add_photos();
  EXPECT_REFUSED(errors(R"({"multi_label": true})"), kBadAnnotations, "/data/multi_label",
                 "'c0/100.jpg' and 'c1/100.jpg'");
}

TEST_F(ImageFolderLabels, ImagesOfAGroupStayInOnePartAndOneFold) {
  // Six groups of four images each, three in each class: p0_0.jpg, p0_1.jpg, …
  for (int i = 0; i < 24; ++i)
    folder_.add("data/c" + std::to_string(i / 12) + "/p" + std::to_string(i / 4) + "_" +
                    std::to_string(i) + ".jpg",
                static_cast<std::uint64_t>(i));
  const auto groups = [](const Dataset& data) {
    std::set<std::string> found;
    for (std::int64_t i = 0; i < data.describe().size; ++i)
      found.insert(dynamic_cast<const GroupedSamples&>(data).group_of(i));
    return found;
  };
  Json options = {{"image_size", 16},
                  {"group_pattern", "^([^_]+)_"},
                  {"split", {{"train", 0.34}, {"validation", 0.33}, {"test", 0.33}}}};
  const auto outputs = run(options);
  EXPECT_EQ(context_.said.front(),
            "2 classes; 8 images for training, 8 for validation, 8 for test");
  std::set<std::string> all;
  for (const char* const port : {"train", "validation", "test"}) {
    const auto own = groups(*part(outputs, port));
    EXPECT_EQ(own.size(), 2u) << port << ": one of each class";
    all.insert(own.begin(), own.end());
  }
  EXPECT_THAT(all, ElementsAre("p0", "p1", "p2", "p3", "p4", "p5"));

  options["split"] = {{"train", 1.0}, {"validation", 0}, {"test", 0}};
  std::set<std::string> validated;
  for (const int index : {0, 1, 2}) {
    options["folds"] = {{"count", 3}, {"index", index}};
    const auto validation = part(run(options), "validation");
    EXPECT_EQ(validation->describe().size, 8);
    const auto own = groups(*validation);
    validated.insert(own.begin(), own.end());
  }
  EXPECT_EQ(validated, all);
}

TEST_F(ImageFolderLabels, GroupsInTwoPublishedPartsAreReported) {
  for (const char* const name : {"train/c0/7_1.jpg", "train/c0/8_1.jpg", "test/c0/7_2.jpg"})
    folder_.add(std::string("data/") + name);
  run({{"image_size", 16}, {"group_pattern", "^(\\d+)_"}});
  EXPECT_THAT(context_.said,
              testing::Contains("images of 1 group are in more than one part, so results may be "
                                "too optimistic: '7'"));
}

TEST_F(ImageFolderLabels, NamesWithoutAGroupAreListed) {
  add_photos();
  const auto with = [&](const char* pattern) { return errors({{"group_pattern", pattern}}); };
  EXPECT_REFUSED(with("^(10[1-9])"), kBadPattern, "/data/group_pattern",
                 "2 of 20 images: 'c0/100.jpg', 'c1/100.jpg'");
  EXPECT_REFUSED(with("^([a-z]+)"), kBadPattern, "/data/group_pattern", "20 of 20 images",
                 "'c0/109.jpg' and 10 more");
  EXPECT_REFUSED(with("^(x*)"), kBadPattern, "/data/group_pattern", "20 of 20 images");
  EXPECT_REFUSED(with("("), kBadPattern, "/data/group_pattern", "missing closing parenthesis");
  EXPECT_REFUSED(with("^10"), kBadPattern, "/data/group_pattern", "it has no group");
}

}  // namespace
}  // namespace stages
