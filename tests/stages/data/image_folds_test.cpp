#include "stages/data/image_folds.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/data/image_split.h"
#include "tests/support/image_lists.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

/// A list with this many training images of each class.
ImageList list_of(std::initializer_list<int> counts) {
  ImageList list;
  for (const int count : counts) {
    const auto label = static_cast<std::int64_t>(list.classes.size());
    list.classes.push_back("c" + std::to_string(label));
    for (int i = 0; i < count; ++i)
      list[Part::kTrain].push_back({list.classes.back() + "/" + std::to_string(1000 + i), label});
  }
  return list;
}

ImageList with_fold(ImageList list, std::int64_t count, std::int64_t index,
                    std::uint64_t seed = 1) {
  take_fold(list, {.count = count, .index = index}, seed);
  return list;
}

std::vector<int> counts_of(const ImageList& list, Part part) {
  std::vector<int> result(list.classes.size());
  for (const ImageFile& file : list[part]) ++result[static_cast<std::size_t>(file.label)];
  return result;
}

std::set<std::string> names_of(const ImageList& list, Part part) {
  std::set<std::string> names;
  for (const ImageFile& file : list[part]) names.insert(file.name);
  return names;
}

/// A list in which patients have several images in different classes: patient p has p % 4 + 1
/// images.
ImageList list_of_patients(int patients) {
  ImageList list;
  list.classes = {"c0", "c1"};
  for (int patient = 0; patient < patients; ++patient)
    for (int image = 0; image <= patient % 4; ++image)
      list[Part::kTrain].push_back({.name = std::to_string(patient) + "_" + std::to_string(image),
                                    .label = patient % 2 == 0 ? 0 : image % 2,
                                    .patient = "p" + std::to_string(patient)});
  return list;
}

TEST(Folds, EachImageIsValidatedOnce) {
  const ImageList all = list_of({23, 11, 17});
  std::map<std::string, int> times;
  for (std::int64_t index = 0; index < 4; ++index) {
    const ImageList list = with_fold(all, 4, index);
    std::set<std::string> both = names_of(list, Part::kTrain);
    for (const std::string& name : names_of(list, Part::kValidation)) {
      ++times[name];
      EXPECT_TRUE(both.insert(name).second) << name;
    }
    EXPECT_EQ(both, names_of(all, Part::kTrain));
  }
  EXPECT_EQ(times.size(), 51u);
  for (const auto& [name, count] : times) EXPECT_EQ(count, 1) << name;
}

TEST(Folds, ClassesAreSpreadEvenly) {
  for (std::int64_t index = 0; index < 4; ++index) {
    const std::vector<int> counts =
        counts_of(with_fold(list_of({23, 11, 17}), 4, index), Part::kValidation);
    EXPECT_THAT(counts[0], testing::AllOf(Ge(5), Le(6)));
    EXPECT_THAT(counts[1], testing::AllOf(Ge(2), Le(3)));
    EXPECT_THAT(counts[2], testing::AllOf(Ge(4), Le(5)));
    const int sum = counts[0] + counts[1] + counts[2];
    EXPECT_THAT(sum, testing::AllOf(Ge(12), Le(13))) << "51 images in 4 folds";
  }
}

TEST(Folds, EachPatientIsInOneFold) {
  std::map<std::string, std::set<std::int64_t>> folds_of;
  std::map<std::string, int> times;
  for (std::int64_t index = 0; index < 5; ++index) {
    const ImageList list = with_fold(list_of_patients(40), 5, index);
    for (const ImageFile& file : list[Part::kValidation]) {
      folds_of[file.patient].insert(index);
      ++times[file.name];
    }
  }
  EXPECT_EQ(folds_of.size(), 40u);
  for (const auto& [patient, folds] : folds_of) EXPECT_EQ(folds.size(), 1u) << patient;
  EXPECT_EQ(times.size(), list_of_patients(40)[Part::kTrain].size());
}

TEST(Folds, PatientsWithManyImagesAreSpreadOverFolds) {
  // Classes have 50 images, in groups of at most 4. A fold has at most one such group more than the
  // smallest fold of the class.
  std::vector<std::size_t> sizes;
  for (std::int64_t index = 0; index < 5; ++index)
    sizes.push_back(with_fold(list_of_patients(40), 5, index)[Part::kValidation].size());
  const auto [smallest, largest] = std::ranges::minmax(sizes);
  EXPECT_LE(largest - smallest, 2 * 4u);
}

TEST(Folds, TestPartIsExcluded) {
  ImageList all = list_of({30, 30});
  split(all, {.train = 0.8, .validation = 0, .test = 0.2}, 7);
  const std::set<std::string> tested = names_of(all, Part::kTest);
  for (std::int64_t index = 0; index < 3; ++index) {
    const ImageList list = with_fold(all, 3, index);
    EXPECT_EQ(names_of(list, Part::kTest), tested);
    EXPECT_THAT(counts_of(list, Part::kValidation), ElementsAre(8, 8));
  }
}

TEST(Folds, OrderOfTheListDoesNotMatter) {
  ImageList turned = list_of({20, 20});
  std::ranges::reverse(turned[Part::kTrain]);
  EXPECT_EQ(names_of(with_fold(turned, 4, 1), Part::kValidation),
            names_of(with_fold(list_of({20, 20}), 4, 1), Part::kValidation));
}

TEST(Folds, PartsKeepTheOrderOfTheList) {
  const ImageList list = with_fold(list_of({20, 20}), 4, 1);
  for (const Part part : {Part::kTrain, Part::kValidation})
    EXPECT_TRUE(std::ranges::is_sorted(list[part], {}, &ImageFile::name));
}

TEST(Folds, DependOnTheSeed) {
  EXPECT_NE(names_of(with_fold(list_of({20, 20}), 4, 1, 1), Part::kValidation),
            names_of(with_fold(list_of({20, 20}), 4, 1, 2), Part::kValidation));
}

TEST(Folds, ClassWithFewerImagesThanFoldsIsReported) {
  EXPECT_REFUSED(with_fold(list_of({9, 4, 3}), 5, 0), kTooFewSamples, "/folds/count",
                 "there are 5 folds, but 2 classes have fewer images for training and validation: "
                 "'c1' has 4, 'c2' has 3");
}

/// Images with any number of labels: `rare` of them have both labels, and three have only the
/// frequent one.
ImageList list_of_label_sets(int rare) {
  ImageList list;
  list.classes = {"frequent", "rare"};
  list.has_label_sets = true;
  list.label_sets = {{0}, {0, 1}};
  for (int i = 0; i < rare + 3; ++i)
    list[Part::kTrain].push_back(
        {.name = std::to_string(i), .label = i < rare, .label_set = i < rare});
  return list;
}

TEST(Folds, LabelThatIsNeverTheRarestIsAlsoSpreadEvenly) {
  for (const std::int64_t index : {0, 1, 2, 3})
    EXPECT_THAT(counts_of(with_fold(list_of_label_sets(4), 4, index), Part::kValidation).back(), 1);
}

TEST(Folds, LabelWithFewerImagesThanFoldsIsReported) {
  EXPECT_REFUSED(with_fold(list_of_label_sets(2), 4, 0), kTooFewSamples, "/folds/count",
                 "there are 4 folds, but a label has fewer images for training and validation: "
                 "'rare' has 2");
}

TEST(Folds, ClassWithFewerPatientsThanFoldsIsReported) {
  ImageList list = list_of({9, 9});
  for (ImageFile& file : list[Part::kTrain])
    file.patient = "p" + std::to_string(file.label) + (file.name.back() < '5' ? "a" : "b");
  EXPECT_REFUSED(with_fold(list, 3, 0), kTooFewSamples, "/folds/count",
                 "fewer groups for training and validation: 'c0' has 2, 'c1' has 2");
}

TEST(Folds, DataWithAValidationPartIsRejected) {
  ImageList list = list_of({9, 9});
  list[Part::kValidation].push_back({"c0/v", 0});
  EXPECT_REFUSED(with_fold(list, 3, 0), kOptionConflict, "/folds",
                 "the data already has a validation part, with 1 image");
}

}  // namespace
}  // namespace stages
