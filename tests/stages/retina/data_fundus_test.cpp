#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "stages/retina/retina.h"
#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

class Fundus : public ImageStageTest {
 protected:
  Fundus() : ImageStageTest(kDataFundus) {}
  void make_aptos() { make_aptos_2019(data(), {.classes = 5, .per_class = 20, .size = 16}); }
  runner::Diagnostics failure(const Json& options) {
    return refusals_of([&] { run(options); });
  }
};

TEST_F(Fundus, SplitDependsOnGradeAndSeed) {
  make_aptos();
  const auto first = run({{"layout", "aptos_2019"}, {"image_size", 8}});
  EXPECT_THAT(context_.said,
              Contains("5 classes; 70 images for training, 15 for validation, 15 for test"));
  EXPECT_THAT(context_.said, Contains("images of grades 0 to 4: train 14, 14, 14, 14, 14; "
                                      "validation 3, 3, 3, 3, 3; test 3, 3, 3, 3, 3"));
  EXPECT_EQ(
      part(first, "train")->describe().classes,
      (std::vector<std::string>{"No DR", "Mild NPDR", "Moderate NPDR", "Severe NPDR", "PDR"}));
  const auto again = run({{"layout", "aptos_2019"}, {"split", {{"seed", 0}}}}),
             other = run({{"layout", "aptos_2019"}, {"split", {{"seed", 1}}}});
  EXPECT_NE(names(*part(again, "test")), names(*part(other, "test")));
}

TEST_F(Fundus, PublishedTestPartReplacesTheTestShare) {
  make_eyepacs_2015(data(), {.classes = 5, .per_class = 20, .size = 16});
  const auto outputs = run({{"layout", "eyepacs_2015"},
                            {"split", {{"train", 0.4}, {"validation", 0.4}, {"test", 0.2}}}});
  const auto size = [&](const char* name) { return part(outputs, name)->describe().size; };
  EXPECT_EQ(size("train") + size("validation") + size("test"), 100);
  EXPECT_EQ(size("test"), 50);
  EXPECT_NEAR(static_cast<double>(size("train")), static_cast<double>(size("validation")), 12);
  for (const std::string& name : names(*part(outputs, "test")))
    EXPECT_THAT(name, testing::StartsWith("test/"));
}

TEST_F(Fundus, CopyInAnotherPartIsRejectedDroppedOrKept) {
  make_fundus_folders(data(), {.classes = 5, .per_class = 6, .size = 16});
  fs::copy_file(data() / "test/2/00001.jpg", data() / "train/2/copy.jpg");
  fs::copy_file(data() / "test/2/00001.jpg", data() / "train/3/copy.jpg");
  EXPECT_REFUSED(
      failure({}), kBadAnnotations, "/duplicates",
      "'train/2/copy.jpg' in train and 'train/3/copy.jpg' in train and 'test/2/00001.jpg' in test");
  context_.said.clear();
  const auto dropped = run({{"duplicates", "drop"}, {"image_size", 8}});
  EXPECT_EQ(part(dropped, "train")->describe().size, 20);
  EXPECT_EQ(part(dropped, "test")->describe().size, 5);
  EXPECT_THAT(
      context_.said,
      Contains("1 image is present more than once, byte for byte: 1 in more than one part, 1 "
               "with more than one grade"));
  EXPECT_THAT(context_.said, Contains("left out of train: 2 images that are also in a later part"));
  EXPECT_EQ(part(run({{"duplicates", "keep"}}), "train")->describe().size, 22);
  EXPECT_THAT(context_.said,
              Contains(HasSubstr("1 image is in more than one part, byte for byte: ")));
}

TEST_F(Fundus, CopiesWithinAPartAreOnlyCounted) {
  make_fundus_folders(data(), {.classes = 5, .per_class = 6, .size = 16});
  fs::copy_file(data() / "train/2/00006.jpg", data() / "train/2/copy.jpg");
  EXPECT_EQ(part(run({}), "train")->describe().size, 21);
  EXPECT_THAT(
      context_.said,
      Contains("1 image is present more than once, byte for byte: 0 in more than one part, 0 "
               "with more than one grade"));
}

TEST_F(Fundus, PatientInTwoPublishedPartsIsReported) {
  for (const char* const name :
       {"train/0/17_left.jpg", "test/1/17_right.jpg", "train/1/18_left.jpg"})
    folder_.add("data/" + std::string(name), name[6]);
  folder_.add("data/val/0/19_left.jpg", 77);
  run({});
  EXPECT_THAT(
      context_.said,
      Contains(
          "images of 1 patient are in more than one part, so results may be too optimistic: 17"));
}

TEST_F(Fundus, TestingNeedsNoTrainingPart) {
  const Json all_for_the_test = {{"split", {{"train", 0}, {"validation", 0}, {"test", 1}}}};
  for (const char* const name : {"data/0/a.jpg", "data/1/b.jpg"}) folder_.add(name, name[7]);
  context_.facts.wanted = {{"test"}};
  EXPECT_EQ(part(run(all_for_the_test), "test")->describe().size, 2);
  fs::remove_all(data());
  for (const char* const name : {"data/test/0/a.jpg", "data/test/1/b.jpg"})
    folder_.add(name, name[12]);
  EXPECT_EQ(part(run({}), "test")->describe().size, 2);
  context_.facts.wanted.reset();
  EXPECT_REFUSED(failure({}), kTooFewSamples, "/root", "train");
}

TEST_F(Fundus, NumberOfKnownPatientsIsReported) {
  make_aptos();
  run({{"layout", "aptos_2019"}});
  EXPECT_THAT(context_.said, Contains("patients: no file name identifies a patient, so images of "
                                      "one patient may be in two parts"));
}

TEST_F(Fundus, EyesAndCopiesOfAPatientStayTogether) {
  for (int i = 0; i < 30; ++i) {
    const std::string grade = std::to_string(i % 3), other = std::to_string((i + 1) % 3),
                      number = std::to_string(i);
    for (const std::string& name :
         {grade + "/1" + number + "_left-600.jpg", grade + "/1" + number + "_left-600-FA.jpg",
          other + "/1" + number + "_right-600.jpg", grade + "/img" + number + ".jpg",
          grade + "/img" + number + "_rot90.jpg"})
      folder_.add("data/" + name, i);
  }
  // Images with the same name in other folders are different images.
  folder_.add("data/0/img1.jpg", 100);
  const auto outputs = run({{"duplicates", "keep"}});
  EXPECT_THAT(context_.said,
              Contains("patients: 30, identified from the names of 90 images; 61 names identify "
                       "none; 30 images are copies of others, judging by the names"));
  std::map<std::string, std::set<std::string>> parts;
  for (const char* const port : {"train", "validation", "test"}) {
    for (const std::string& name : names(*part(outputs, port))) {
      const std::string file = name.substr(2);
      parts[file.starts_with("img") ? name.substr(0, name.find_first_of("_."))
                                    : file.substr(0, file.find('_'))]
          .insert(port);
    }
  }
  EXPECT_EQ(parts.size(), 61u);
  for (const auto& [owner, its] : parts) EXPECT_EQ(its.size(), 1u) << owner;
}

TEST_F(Fundus, CopiesInPublishedPartsAreReported) {
  for (const char* const name :
       {"train/0/a1.jpg", "test/0/a1_flip.jpg", "train/0/a2.jpg", "test/0/a2.jpg"})
    folder_.add("data/" + std::string(name), name[9] + name[1]);
  run({{"duplicates", "keep"}});
  EXPECT_THAT(context_.said, Contains("images of 1 duplicated image are in more than one part, so "
                                      "results may be too optimistic: 'a1.jpg'"));
}

TEST_F(Fundus, PatternFindsPatients) {
  std::uint64_t seed = 0;
  for (const char* const name :
       {"0/anna-1.jpg", "1/anna-2.jpg", "0/ben-1.jpg", "1/carl-1.jpg", "0/dora-7.jpg"})
    folder_.add("data/" + std::string(name), ++seed);
  const Json shares = {{"train", 0.5}, {"validation", 0}, {"test", 0.5}};
  run({{"patient", "^([a-z]+)-\\d"}, {"split", shares}});
  EXPECT_THAT(context_.said, Contains("patients: 4, identified from the names of 5 images"));
  EXPECT_REFUSED(errors({{"patient", "("}}), kBadPattern, "/data/patient", "character 1");
  EXPECT_REFUSED(errors({{"patient", "(\\d{4})"}}), kBadPattern, "/data/patient", "0/anna-1.jpg");
  folder_.add("data/0/" + std::string(60, 'a') + "b.jpg", 99);
  EXPECT_REFUSED(errors({{"patient", "((a+)+)+$"}}), kBadPattern, "/data/patient", "((a+)+)+$");
}

TEST_F(Fundus, PartWithAShareMustNotBeEmpty) {
  for (const char* const name : {"data/0/a.jpg", "data/0/b.jpg"}) folder_.add(name, name[7]);
  EXPECT_REFUSED(failure({}), kTooFewSamples, "/split", "validation");
  EXPECT_THAT(failure({{"split", {{"train", 0.5}, {"validation", 0}, {"test", 0.5}}}}),
              testing::IsEmpty());
}

TEST_F(Fundus, UnreadableImageIsReported) {
  make_fundus_folders(data(), {.classes = 5, .per_class = 6, .size = 16});
  write_bytes(data() / "test/0/00001.jpg", {0xff, 0xd8, 0xff});
  const auto test = part(run({{"image_size", 8}}), "test");
  EXPECT_REFUSED(test->sample(0, 0), kCorruptImage, "/data/root", "'test/0/00001.jpg'");
  EXPECT_FALSE(part(run({{"image_size", 8}, {"on_corrupt", "skip"}}), "test")->sample(0, 0));
}

}  // namespace
}  // namespace stages
